//! Tests of the whole: the contract that the fake and etcd both keep, members in virtual time, the driver, the gateway
//! client against odd answers, and all of it against real etcds.

mod cluster_simulation;
mod contract;
mod credentials;
mod driver;
mod fake_gateway;
mod gateway;
mod live;
mod member;
