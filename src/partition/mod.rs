//! L3: how a model lies over devices.
