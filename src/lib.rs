//! Control core of the appliance.
