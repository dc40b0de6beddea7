//! Feeds any text as a config file. It is understood, or refused with the line and what is wrong there.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sublet_host::config::WrittenConfig;

fuzz_target!(|text: &str| {
    let mut written = WrittenConfig::defaults();
    let read = written.read(Path::new("sublet.toml"), text);
    let outcome = read.and_then(|()| written.resolve());
    if let Err(faults) = outcome {
        assert!(!faults.to_string().is_empty(), "a refusal without a reason");
    }
});
