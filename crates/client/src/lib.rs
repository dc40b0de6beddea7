//! The contract with programs outside: admin messages and a handle that speaks them.
