//! Rings served, by threads, to clients that play fair and to clients that do not.

mod double;
mod fair;
mod hostile;
mod real;
mod speed;
