//! Numbers equal to those of the projects that Gimlet is compatible with.

mod adafactor;
