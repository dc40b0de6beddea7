//! The daemon as a process, asked over its real sockets.

mod admin;
mod afar;
mod ailing;
mod daemon;
mod disks;
mod draining;
mod guest;
mod images;
mod keeper;
mod left_behind;
mod libvirt;
mod life;
mod limits;
mod locked;
mod lost;
mod metrics;
mod notes;
mod packaging;
mod papers;
mod policy;
mod saves;
mod sharing;
mod stuck;
mod tenants;
mod turnover;
mod users;
