//! `sublet memcached` as a process: started, asked, pressed and ended as its users do it.

mod connections;
mod flush;
mod process;
mod started;
mod tls;
