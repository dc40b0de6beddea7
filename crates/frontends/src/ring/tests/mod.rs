//! Rings that threads serve to honest clients and to hostile ones.

mod fair;
mod fake_pages;
mod far;
mod hostile;
mod real;
mod speed;
