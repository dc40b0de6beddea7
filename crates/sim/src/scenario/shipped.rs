//! The scenarios that come with the program.

use super::{Scenario, ScenarioError};

/// A scenario that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name, as it is asked for.
    pub name: &'static str,
    /// What stands in it.
    pub text: &'static str,
}

impl Shipped {
    /// The one with this name.
    pub fn find(name: &str) -> Option<Shipped> {
        SHIPPED.into_iter().find(|shipped| shipped.name == name)
    }

    /// What it means.
    ///
    /// # Errors
    ///
    /// None, as the tests see to it.
    pub fn scenario(self) -> Result<Scenario, ScenarioError> {
        Scenario::parse(self.name, self.text)
    }
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// All of them.
        pub const SHIPPED: [Shipped; [$($name),*].len()] = [$(Shipped {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*];
    };
}

shipped!(
    "smartmem-1",
    "smartmem-2",
    "smartmem-3",
    "smartmem-usemem",
    "mortar",
    "synergy",
    "thousand",
    "mixed",
);
