//! Any text as a config file: it is understood, or refused with the line and what is wrong there.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sublet_host::config::Written;

fuzz_target!(|text: &str| {
    let mut written = Written::defaults();
    let read = written.read(Path::new("sublet.toml"), text);
    let outcome = read.and_then(|()| written.meaning());
    if let Err(faults) = outcome {
        assert!(!faults.to_string().is_empty(), "a refusal without a reason");
    }
});
