//! The scenarios that come with the program.

use super::{Scenario, ScenarioError};

/// A scenario that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInScenario {
    /// The name to ask for it.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl BuiltInScenario {
    /// The one with this name.
    pub fn find(name: &str) -> Option<BuiltInScenario> {
        SHIPPED.into_iter().find(|shipped| shipped.name == name)
    }

    /// The parsed scenario.
    ///
    /// # Errors
    ///
    /// None: the tests parse every built-in scenario.
    pub fn scenario(self) -> Result<Scenario, ScenarioError> {
        Scenario::parse(self.name, self.text)
    }
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// All of them.
        pub const SHIPPED: [BuiltInScenario; [$($name),*].len()] = [$(BuiltInScenario {
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
    "vmca-1",
    "vmca-2",
    "vmca-3",
    "vmca-4",
    "thousand",
    "mixed",
);
