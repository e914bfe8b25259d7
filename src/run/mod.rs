//! L5: wiring of the commands.
