//! Finds what TLS says among the causes of a failure.

use std::error::Error;
use std::io;

/// Returns the TLS error among the causes of a failure, if there is one.
pub fn tls_fault(failure: &io::Error) -> Option<&rustls::Error> {
    let mut cause = Some(failure as &(dyn Error + 'static));
    while let Some(error) = cause {
        if let Some(fault) = error.downcast_ref() {
            return Some(fault);
        }
        // An `io::Error` skips the error that it was made of in `source`, so this asks for that error itself.
        let inner = error.downcast_ref::<io::Error>().map(io::Error::get_ref);
        cause = match inner {
            Some(inner) => inner.map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}
