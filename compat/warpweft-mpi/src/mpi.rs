//! The beginning and the end of MPI in this process.

use crate::api::{Api, WORLD};
use crate::collectives::Reduce;
use crate::comm::Comm;
use crate::error::{MpiError, MpiErrorKind};
use crate::neighbour::{self, Contact, Goodbye};
use crate::op::RawComm;
use crate::peer_waker::{self, PeerWaker};
use crate::progress::MpiProgress;
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::sync::Arc;
use warpweft::Runtime;

/// MPI in this process, from [`init`](Self::init) to [`finalize`](Self::finalize).
#[derive(Debug)]
pub struct Mpi<'runtime> {
    world: Comm,
    goodbye: Option<Goodbye>,
    finished: bool,
    /// The runtime polls for MPI until then.
    runtime: PhantomData<&'runtime Runtime>,
}

impl<'runtime> Mpi<'runtime> {
    /// Begins MPI in this process, which a launcher such as `mpirun -n 4 program` started. All ranks call
    /// this. A program that was started without a launcher is the only rank.
    ///
    /// `runtime` polls for MPI from now on.
    ///
    /// # Errors
    ///
    /// There is no MPI (the error names what to install), it allows one thread only, it was begun in this
    /// process before, or the runtime has an engine already.
    ///
    /// Then the ranks meet each other. One that cannot writes why to the standard error and ends the job,
    /// because the others wait for it.
    pub fn init(runtime: &'runtime Runtime) -> Result<Self, MpiError> {
        let api = Api::find()?;
        api.init()?;
        let (rank, size) = (api.rank(WORLD)?, api.size(WORLD)?);
        let handle = RawComm(api.duplicate(WORLD)?);
        let progress = Arc::new(MpiProgress::new(api));
        match runtime.set_progress(Arc::clone(&progress) as _) {
            Ok(notifier) => progress.set_notifier(notifier),
            Err(error) => {
                // Without it the launcher reports a rank that ended early.
                api.finalize()?;
                return Err(MpiError::library(error.to_string()));
            }
        }
        let mut mpi = Self {
            world: Comm::new(progress, handle, rank, size),
            goodbye: None,
            finished: false,
            runtime: PhantomData,
        };
        if size > 1
            && let Err(error) = mpi.meet(runtime)
        {
            // The others wait for this rank, and the runtime has the engine already. In one piece: the other
            // ranks may write, too.
            let why = format!("warpweft-mpi: rank {rank} of {size} cannot begin: {error}; the job ends\n");
            let _ = io::stderr().write_all(why.as_bytes());
            mpi.abort(1);
        }
        Ok(mpi)
    }

    /// Has the ranks wake each other, and watch each other.
    fn meet(&mut self, runtime: &Runtime) -> Result<(), MpiError> {
        let system = |error: io::Error| MpiError::library(format!("the ranks cannot meet: {error}"));
        let world = &self.world;
        let socket = peer_waker::listen().map_err(system)?;
        let listener = std::net::TcpListener::bind("0.0.0.0:0").map_err(system)?;
        let contact = Contact::of(&listener).map_err(system)?;
        let contacts = world.all_gather(contact.to_bytes()).wait()?;
        let contacts: Vec<_> = contacts
            .chunks_exact(Contact::BYTES)
            .map(Contact::from_bytes)
            .collect();
        let pids: Vec<u32> = contacts.iter().map(|contact| contact.pid).collect();
        let peer_waker = PeerWaker::new(socket, &pids).map_err(system)?;
        let heard = contacts.iter().all(|other| other.host == contact.host) && peer_waker.check();
        let all_heard = world.all_reduce(vec![i64::from(heard)], Reduce::Min).wait()?;
        if all_heard == [1] {
            let socket = peer_waker
                .socket()
                .and_then(|socket| neighbour::register(runtime, socket));
            let socket = socket.map_err(system)?;
            let progress = Arc::clone(&world.progress);
            progress.set_peer_waker(peer_waker);
            let receives = async move {
                let mut bytes = [0; 16];
                // Until the runtime ends.
                while socket.read_with(|socket| socket.recv(&mut bytes)).await.is_ok() {
                    progress.notified();
                }
            };
            drop(runtime.spawn(receives));
        }
        self.goodbye = Some(neighbour::watch(runtime, world, &listener, &contacts).map_err(system)?);
        Ok(())
    }

    /// Returns the number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.world.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.world.size
    }

    /// Returns the communicator of all ranks. It is a copy of `MPI_COMM_WORLD`, so messages of other parts of
    /// the program do not meet its own.
    #[must_use]
    pub fn world(&self) -> &Comm {
        &self.world
    }

    /// Returns the version text of the library.
    ///
    /// # Errors
    ///
    /// MPI was finalised.
    pub fn library(&self) -> Result<String, MpiError> {
        self.world.progress.call(|api| Ok(api.version()))
    }

    /// Ends all ranks of the job at once, with this exit code.
    pub fn abort(&self, code: i32) -> ! {
        let _ = self.world.progress.call(|api| {
            api.abort(code);
            Ok(())
        });
        std::process::exit(code)
    }

    /// Ends MPI in this process. All ranks call this, after their last message; it waits for the others.
    ///
    /// # Errors
    ///
    /// MPI fails, or messages were outstanding: then they fail, too, and the error has their number.
    pub fn finalize(mut self) -> Result<(), MpiError> {
        let met = self.world.barrier().wait();
        if met.is_ok()
            && let Some(goodbye) = self.goodbye.take()
        {
            goodbye.say();
        }
        // Also if the others were not met: from here on no thread looks at MPI.
        let left = self.world.progress.finish(met.is_ok());
        self.finished = true;
        met?;
        let left = left?;
        if left.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = left.iter().take(5).map(ToString::to_string).collect();
        Err(MpiError::new(
            MpiErrorKind::Finished,
            format!(
                "{} messages of rank {} were outstanding at `Mpi::finalize`, among them: {}; wait for each, \
                 or drop it before",
                left.len(),
                self.world.rank,
                list.join(", ")
            ),
        ))
    }
}

impl Drop for Mpi<'_> {
    fn drop(&mut self) {
        if !self.finished {
            eprintln!(
                "warpweft-mpi: rank {} of {} ends without `Mpi::finalize`; the job ends",
                self.world.rank, self.world.size
            );
            self.abort(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mpi;
    use crate::api::fake;
    use crate::comm::Comm;
    use crate::error::MpiErrorKind;
    use crate::op::RawComm;
    use crate::progress::MpiProgress;
    use std::marker::PhantomData;
    use std::sync::Arc;

    #[test]
    fn an_end_without_the_others_ends_what_is_outstanding() {
        let progress = Arc::new(MpiProgress::new(fake::api()));
        let mpi = Mpi {
            world: Comm::new(progress, RawComm(std::ptr::null_mut()), 0, 2),
            goodbye: None,
            finished: false,
            runtime: PhantomData,
        };
        let receive = mpi.world().recv(1, 3, 8);
        fake::with(|fake| fake.barrier = Some(fake::WRONG));
        let error = mpi.finalize().expect_err("the others were not met");
        assert_eq!(error.kind(), MpiErrorKind::Call, "{error}");
        assert!(receive.is_over());
        let error = receive.wait().expect_err("MPI has ended");
        assert_eq!(error.kind(), MpiErrorKind::Finished, "{error}");
        assert_eq!(fake::with(|fake| fake.finalized), 0, "it waits for all ranks");
    }
}
