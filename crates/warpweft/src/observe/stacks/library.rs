//! The program and the libraries that are loaded, for the unwinder.

use framehop::{ExplicitModuleSectionInfo, Module};
use std::ops::Range;

/// Calls `visit` for each library, the program first, until it returns false.
pub(super) fn libraries(visit: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn each(
        library: *mut libc::dl_phdr_info,
        _: libc::size_t,
        visit: *mut libc::c_void,
    ) -> libc::c_int {
        let visit = visit.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>();
        // SAFETY: `libraries` passes this pointer, to a function that it borrows meanwhile.
        let visit = unsafe { &mut *visit };
        // SAFETY: the dynamic linker passes a valid pointer.
        let library = unsafe { &*library };
        libc::c_int::from(!visit(library))
    }
    let mut visit = visit;
    // SAFETY: the callback has the right signature, and is called during this call only.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut visit).cast()) };
}

/// A loaded library or the program.
pub(super) struct Library {
    name: String,
    base: u64,
    /// Where its segments are.
    range: Range<u64>,
    /// The segment with code.
    text: Range<u64>,
    /// The index of the unwind information.
    index: Range<u64>,
    /// From the unwind information to the end of its segment.
    frames: Range<u64>,
}

impl Library {
    /// Describes a library, if it has unwind information.
    pub(super) fn of(library: &libc::dl_phdr_info) -> Option<Self> {
        let base = library.dlpi_addr;
        // SAFETY: the dynamic linker says how many headers there are.
        let headers = unsafe { std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into()) };
        let range = |header: &libc::Elf64_Phdr| {
            let start = base.wrapping_add(header.p_vaddr);
            start..start.wrapping_add(header.p_memsz)
        };
        let segments: Vec<_> = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .collect();
        let index = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        let index = range(index);
        // Code that may be run and not read is left alone.
        let readable = libc::PF_X | libc::PF_R;
        let text = segments
            .iter()
            .find(|segment| segment.p_flags & readable == readable)?;
        // The header: a version, how the pointer is encoded, two more such bytes, and the pointer. Linkers
        // write it relative to its place, in four bytes.
        // SAFETY: it is a part of the library that is loaded.
        let [version, encoding, ..] = *(unsafe { bytes(index.start..index.start + 8) }) else {
            return None;
        };
        if (version, encoding) != (1, 0x1b) {
            return None;
        }
        // SAFETY: as above.
        let offset = unsafe { bytes(index.start + 4..index.start + 8) };
        let offset = i32::from_ne_bytes(offset.try_into().ok()?);
        let start = (index.start + 4).checked_add_signed(offset.into())?;
        let segment = segments
            .iter()
            .map(|segment| range(segment))
            .find(|segment| segment.contains(&start))?;
        // SAFETY: null, or a text of the dynamic linker.
        let name =
            (!library.dlpi_name.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(library.dlpi_name) });
        let name = name
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !name.is_empty());
        let program =
            || std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string());
        let ends = segments.iter().map(|segment| range(segment));
        Some(Self {
            name: name.unwrap_or_else(program),
            base,
            range: ends.clone().map(|it| it.start).min()?..ends.map(|it| it.end).max()?,
            text: range(text),
            index,
            frames: start..segment.end,
        })
    }

    /// Describes it to the unwinder. Only in the dynamic linker's callback.
    pub(super) fn module(&self) -> Module<&'static [u8]> {
        let relative = |range: &Range<u64>| range.start - self.base..range.end - self.base;
        // SAFETY: these are parts of a library that is loaded while the unwinder is used.
        let parts = [&self.text, &self.index, &self.frames].map(|part| unsafe { bytes(part.clone()) });
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: Some(relative(&self.text)),
            text: Some(parts[0]),
            eh_frame_hdr_svma: Some(relative(&self.index)),
            eh_frame_hdr: Some(parts[1]),
            eh_frame_svma: Some(relative(&self.frames)),
            eh_frame: Some(parts[2]),
            ..Default::default()
        };
        Module::new(self.name.clone(), self.range.clone(), self.base, sections)
    }

    /// Returns its name and the place in it, if it has that address.
    pub(super) fn place(&self, address: u64) -> Option<(String, u64)> {
        self.range
            .contains(&address)
            .then(|| (self.name.clone(), address - self.base))
    }
}

/// Returns the memory at these addresses.
///
/// # Safety
///
/// It is readable, is not written, and stays there while the result is used.
unsafe fn bytes(range: Range<u64>) -> &'static [u8] {
    let start = std::ptr::with_exposed_provenance(range.start as usize);
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(start, (range.end - range.start) as usize) }
}
