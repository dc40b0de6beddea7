//! `sublet memcached` as a process: started, used, stressed and ended as its users do it.

mod connections;
mod flush;
mod process;
mod started;
mod tls;
