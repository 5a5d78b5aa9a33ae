//! Programs with sockets and files that the compiler must refuse. `cargo test --doc` checks that it does,
//! each for its own reason.

/// All of these go to other threads, and are used by several at a time.
///
/// ```
/// use warpweft::{fs, io, net};
/// fn anywhere<T: Send + Sync + Unpin + 'static>() {}
/// anywhere::<io::Async<std::os::unix::net::UnixStream>>();
/// anywhere::<net::TcpStream>();
/// anywhere::<net::TcpListener>();
/// anywhere::<net::UdpSocket>();
/// anywhere::<net::UnixStream>();
/// anywhere::<net::UnixListener>();
/// anywhere::<net::UnixDatagram>();
/// anywhere::<net::OwnedReadHalf<std::net::TcpStream>>();
/// anywhere::<net::OwnedWriteHalf<std::net::TcpStream>>();
/// anywhere::<net::Incoming<'static>>();
/// anywhere::<fs::File>();
/// ```
///
/// What wraps a descriptor that is tied to its thread is tied to it as well.
///
/// ```compile_fail,E0277
/// use std::os::fd::{AsFd, BorrowedFd};
/// struct AbortOnDrop(std::net::TcpStream, std::rc::Rc<()>);
/// impl AsFd for AbortOnDrop {
///     fn as_fd(&self) -> BorrowedFd<'_> {
///         self.0.as_fd()
///     }
/// }
/// fn anywhere<T: Send>() {}
/// anywhere::<warpweft::io::Async<AbortOnDrop>>();
/// ```
///
/// And what one thread at a time may use, one at a time may use.
///
/// ```compile_fail,E0277
/// use std::os::fd::{AsFd, BorrowedFd};
/// struct Counted(std::net::TcpStream, std::cell::Cell<u32>);
/// impl AsFd for Counted {
///     fn as_fd(&self) -> BorrowedFd<'_> {
///         self.0.as_fd()
///     }
/// }
/// fn by_several<T: Sync>() {}
/// by_several::<warpweft::io::Async<Counted>>();
/// ```
struct WhatMayGoWhere;

/// A descriptor that is registered is not exchanged for another one.
///
/// ```compile_fail,E0594
/// # fn f(socket: warpweft::io::Async<std::net::UdpSocket>, other: std::net::UdpSocket) {
/// *socket.get_ref() = other;
/// # }
/// ```
///
/// It is taken out, which ends the registration.
///
/// ```
/// # fn f(socket: warpweft::io::Async<std::net::UdpSocket>) {
/// let mut socket = socket.into_inner();
/// socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// # }
/// ```
struct ExchangedDescriptor;

/// The buffer of a read that is under way is the read's.
///
/// ```compile_fail,E0506
/// # async fn f(stream: warpweft::net::TcpStream) {
/// let mut buffer = [0; 8];
/// let read = stream.read(&mut buffer);
/// buffer[0] = 1;
/// read.await.unwrap();
/// # }
/// ```
///
/// Afterwards it is not.
///
/// ```
/// # async fn f(stream: warpweft::net::TcpStream) {
/// let mut buffer = [0; 8];
/// stream.read(&mut buffer).await.unwrap();
/// buffer[0] = 1;
/// # }
/// ```
struct BufferOfARead;

/// A task that may outlive this stack does not borrow a stream from it.
///
/// ```compile_fail,E0373
/// # fn f(stream: warpweft::net::TcpStream) {
/// warpweft::spawn(async { stream.write_all(b"hello").await });
/// # }
/// ```
///
/// It takes it along, or a half of it.
///
/// ```
/// # fn f(stream: warpweft::net::TcpStream) {
/// let (_read, write) = stream.into_split();
/// warpweft::spawn(async move { write.write_all(b"hello").await });
/// # }
/// ```
struct StreamOfTheStack;

/// The half that reads is none that is written to, for those who ask for one.
///
/// ```compile_fail,E0277
/// fn send(_: impl futures_io::AsyncWrite) {}
/// # fn f(stream: warpweft::net::TcpStream) {
/// let (read, _write) = stream.into_split();
/// send(read);
/// # }
/// ```
///
/// The other one is.
///
/// ```
/// fn send(_: impl futures_io::AsyncWrite) {}
/// # fn f(stream: warpweft::net::TcpStream) {
/// let (_read, write) = stream.into_split();
/// send(write);
/// # }
/// ```
struct ReaderForAWriter;

/// Connections do not come from a listener that has gone.
///
/// ```compile_fail,E0597
/// # fn f() -> std::io::Result<()> {
/// let incoming = {
///     let listener = warpweft::net::TcpListener::bind(([127, 0, 0, 1], 0))?;
///     listener.incoming()
/// };
/// drop(incoming);
/// # Ok(())
/// # }
/// ```
struct IncomingWithoutAListener;

/// What can be connected to is a closed list: others may be added to it without breaking anybody.
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl warpweft::net::Target for Mine {}
/// ```
struct TargetOfOnesOwn;

/// A call that is left to itself outlives what its caller has.
///
/// ```compile_fail,E0373
/// # async fn f() {
/// let path = String::from("file");
/// warpweft::fs::call(|| std::fs::read(&path)).await.unwrap();
/// # }
/// ```
///
/// It runs on another thread: no `Rc`.
///
/// ```compile_fail,E0277
/// # async fn f() {
/// let path = std::rc::Rc::new("file");
/// warpweft::fs::call(move || std::fs::read(*path)).await.unwrap();
/// # }
/// ```
///
/// Nor in what it gives.
///
/// ```compile_fail,E0277
/// # async fn f() {
/// warpweft::fs::call(|| Ok(std::rc::Rc::new(1))).await.unwrap();
/// # }
/// ```
///
/// What it takes along is its own.
///
/// ```
/// # async fn f() {
/// let path = String::from("file");
/// warpweft::fs::call(move || std::fs::read(path)).await.unwrap();
/// # }
/// ```
struct CallThatBorrows;

/// A file's bytes come by value: there is no buffer for a call to write into that is left to itself.
///
/// ```compile_fail,E0308
/// # async fn f(file: warpweft::fs::File) {
/// let mut buffer = [0; 8];
/// file.read_at(0, &mut buffer).await.unwrap();
/// # }
/// ```
struct BufferOfAFile;
