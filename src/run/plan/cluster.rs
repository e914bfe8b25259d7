//! The machine for which a run is planned: its devices, and the links between them.

use super::device::{CPU, DeviceRates, Efficiency};
use crate::nn::Dtype;
use crate::partition::LocalDevice;

/// The processes of a run, each with its device.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Number of processes.
    pub count: usize,
    /// Number of processes of a host.
    pub per_host: usize,
    /// The device of each process; of CPUs, the processors that all of them share.
    pub device: DeviceRates,
    /// The shares of rates that are reached.
    pub efficiency: Efficiency,
    /// Seconds that a step takes for each predicted second: 1, or as a measured step says.
    pub pace: f64,
}

impl Cluster {
    /// The kind of its devices.
    pub fn local_device(&self) -> LocalDevice {
        if self.device.name == CPU { LocalDevice::Cpu } else { LocalDevice::Cuda(0) }
    }

    /// Whether its devices are processors.
    pub fn is_of_cpus(&self) -> bool {
        self.local_device() == LocalDevice::Cpu
    }

    /// Operations a second of all processes, without their efficiency.
    pub fn peak(&self) -> f64 {
        match self.is_of_cpus() {
            true => self.device.bfloat16 / self.pace,
            false => self.device.bfloat16 * self.count as f64,
        }
    }

    /// The same machine with one process.
    pub fn alone(&self) -> Self {
        Self { count: 1, per_host: 1, ..self.clone() }
    }

    /// Operations a second of a process in dense products.
    pub fn products(&self, dtype: Dtype) -> f64 {
        let peak = match dtype {
            Dtype::Float32 => self.device.float32,
            Dtype::Bfloat16 => self.device.bfloat16,
            Dtype::Float16 => self.device.float16,
        };
        self.share(self.efficiency.products * peak)
    }

    /// Operations a second of a process in dense products in 8 bits; `None` if 16 bits are as fast.
    pub fn fp8_products(&self) -> Option<f64> {
        self.device.fp8.map(|peak| self.share(self.efficiency.fp8_products * peak))
    }

    /// Operations a second of a process inside attention.
    pub fn attention(&self) -> f64 {
        self.share(self.device.attention)
    }

    /// Bytes a second of a process's memory.
    pub fn memory_rate(&self) -> f64 {
        self.share(self.efficiency.memory * self.device.memory_rate)
    }

    /// Bytes that a run may use of a process's memory.
    pub fn usable_memory(&self) -> f64 {
        self.share(self.efficiency.usable_memory * self.device.memory)
    }

    /// Bytes a second that a process sends to the next one of a ring in which `neighbours` of each host are, and whether
    /// the ring leaves hosts. It leaves each host once, over the ports of all of its processes there.
    pub fn link(&self, neighbours: usize, size: usize) -> (f64, RingPlace) {
        let inside = self.efficiency.links * self.device.inside;
        let ports = self.efficiency.links * self.device.network * neighbours as f64;
        match neighbours >= size {
            true => (inside, RingPlace::Inside),
            false => (inside.min(ports), RingPlace::Network),
        }
    }

    /// Returns the seconds in which a process sends so many bytes, an equal part to each other process of a group of that
    /// size, of which `neighbours` are in each host, and the slower links. Its port carries what leaves the host.
    pub fn exchange(&self, bytes: f64, neighbours: usize, size: usize) -> (f64, RingPlace) {
        let part = bytes / (size as f64 - 1.0);
        let inside =
            part * (neighbours as f64 - 1.0) / (self.efficiency.links * self.device.inside);
        let leaving = part * (size - neighbours) as f64;
        let network = leaving / (self.efficiency.links * self.device.network);
        match network > inside {
            true => (network, RingPlace::Network),
            false => (inside, RingPlace::Inside),
        }
    }

    /// A process's part of a rate or a size.
    fn share(&self, whole: f64) -> f64 {
        match self.local_device() {
            LocalDevice::Cpu => whole / self.per_host as f64,
            LocalDevice::Cuda(_) => whole,
        }
    }
}

/// The links that a ring uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingPlace {
    /// Those of hosts.
    Inside,
    /// Those between hosts too.
    Network,
}

#[cfg(test)]
mod tests {
    use super::super::device::{CPUS, GPUS, KNOWN, processors};
    use super::*;

    #[test]
    fn a_ring_leaves_each_host_over_the_ports_of_its_processes_there() {
        let device = KNOWN.into_iter().find(|device| device.name == "H100").expect("it is known");
        let cluster = Cluster { count: 16, per_host: 8, device, efficiency: GPUS, pace: 1.0 };
        assert_eq!(cluster.link(8, 8), (0.75 * 450e9, RingPlace::Inside));
        // Eight ports of 50 GB/s, and one.
        assert_eq!(cluster.link(8, 16), (0.75 * 400e9, RingPlace::Network));
        assert_eq!(cluster.link(1, 2), (0.75 * 50e9, RingPlace::Network));
    }

    #[test]
    fn an_exchange_leaves_each_host_over_the_port_of_each_process() {
        let device = KNOWN.into_iter().find(|device| device.name == "H100").expect("it is known");
        let cluster = Cluster { count: 16, per_host: 8, device, efficiency: GPUS, pace: 1.0 };
        assert_eq!(cluster.exchange(7e9, 8, 8), (7e9 / (0.75 * 450e9), RingPlace::Inside));
        // Eight of fifteen parts.
        assert_eq!(cluster.exchange(15e9, 8, 16), (8e9 / (0.75 * 50e9), RingPlace::Network));
    }

    #[test]
    fn processes_share_processors_and_have_gpus_of_their_own() {
        let device = processors(100e9, 8e9);
        let cluster = Cluster { count: 4, per_host: 4, device, efficiency: CPUS, pace: 2.0 };
        assert_eq!(cluster.products(Dtype::Float32), 25e9);
        assert_eq!(cluster.alone().products(Dtype::Float32), 100e9);
        assert_eq!(cluster.peak(), 50e9);
        let cluster = Cluster { device: KNOWN[0], ..cluster };
        assert_eq!(cluster.products(Dtype::Bfloat16), 312e12);
    }
}
