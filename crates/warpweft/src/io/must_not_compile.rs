//! Programs with sockets and files that the compiler must refuse. `cargo test --doc` checks that it does so,
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
/// A source whose wrapped value is bound to its thread is bound to it, too.
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
/// A wrapped value that is not `Sync` makes a source that is not `Sync`.
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

/// A registered descriptor cannot be replaced by another one.
///
/// ```compile_fail,E0594
/// # fn f(socket: warpweft::io::Async<std::net::UdpSocket>, other: std::net::UdpSocket) {
/// *socket.get_ref() = other;
/// # }
/// ```
///
/// It can be taken out, which ends the registration.
///
/// ```
/// # fn f(socket: warpweft::io::Async<std::net::UdpSocket>) {
/// let mut socket = socket.into_inner();
/// socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// # }
/// ```
struct ExchangedDescriptor;

/// A read that is in progress owns its buffer.
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
/// Afterwards the buffer is free.
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
/// A task may own a stream, or a half of it.
///
/// ```
/// # fn f(stream: warpweft::net::TcpStream) {
/// let (_read, write) = stream.into_split();
/// warpweft::spawn(async move { write.write_all(b"hello").await });
/// # }
/// ```
struct StreamOfTheStack;

/// The reading half is not a writer.
///
/// ```compile_fail,E0277
/// fn send(_: impl futures_io::AsyncWrite) {}
/// # fn f(stream: warpweft::net::TcpStream) {
/// let (read, _write) = stream.into_split();
/// send(read);
/// # }
/// ```
///
/// The writing half is one.
///
/// ```
/// fn send(_: impl futures_io::AsyncWrite) {}
/// # fn f(stream: warpweft::net::TcpStream) {
/// let (_read, write) = stream.into_split();
/// send(write);
/// # }
/// ```
struct ReaderForAWriter;

/// The stream of connections does not outlive its listener.
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

/// The trait of targets is sealed, so that others may be added without breaking users.
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl warpweft::net::Target for Mine {}
/// ```
struct TargetOfOnesOwn;

/// A call may outlive the frame of its caller, so it cannot borrow from it.
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
/// Its result cannot be one either.
///
/// ```compile_fail,E0277
/// # async fn f() {
/// warpweft::fs::call(|| Ok(std::rc::Rc::new(1))).await.unwrap();
/// # }
/// ```
///
/// It owns what it uses.
///
/// ```
/// # async fn f() {
/// let path = String::from("file");
/// warpweft::fs::call(move || std::fs::read(path)).await.unwrap();
/// # }
/// ```
struct CallThatBorrows;

/// A file's bytes come by value, because a detached call must not write into a caller's buffer.
///
/// ```compile_fail,E0308
/// # async fn f(file: warpweft::fs::File) {
/// let mut buffer = [0; 8];
/// file.read_at(0, &mut buffer).await.unwrap();
/// # }
/// ```
struct BufferOfAFile;
