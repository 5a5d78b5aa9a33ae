//! What a run came to.

/// The figures of a run, in virtual time.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Packets, leaves, passes or calls.
    pub(crate) items: u64,
    /// From the first item to the end of the last.
    pub(crate) elapsed_ns: u64,
    /// From spawn to the end of a handler, of a whole tree or of a call, or from one token to the next; in
    /// ascending order.
    pub(crate) latencies_ns: Vec<u64>,
}
