package volumemgr

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"mesos-gpu/internal/elffile"
)

// elfObject is a simulated library.
type elfObject struct {
	class  elf.Class
	soname string
	// needed are the SONAMEs of libraries that it depends on.
	needed []string
	// kernel is the oldest supported Linux as three words; nil: no such note.
	kernel []uint32
	// text follows the content.
	text string
}

// sharedObject returns a library with a SONAME and no exported symbols.
func sharedObject(class elf.Class, soname string) []byte {
	return elfObject{class: class, soname: soname}.encodeELF()
}

// encodeELF returns the smallest ELF file that ldconfig, debug/elf and the dynamic
// loader accept as a library.
//
// The file is one loaded segment: header, three program headers, one empty
// symbol, a hash table of that symbol, the strings, the dynamic section, the
// note of the kernel, and five section headers.
func (o elfObject) encodeELF() []byte {
	text := []byte{0}
	add := func(s string) uint64 {
		at := len(text)
		text = append(append(text, s...), 0)
		return uint64(at)
	}
	dynamic := [][2]uint64{{uint64(elf.DT_SONAME), add(o.soname)}}
	for _, name := range o.needed {
		dynamic = append(dynamic, [2]uint64{uint64(elf.DT_NEEDED), add(name)})
	}
	for len(text)%8 != 0 {
		text = append(text, 0)
	}
	sectionNames := []byte("\x00.dynstr\x00.dynamic\x00.shstrtab\x00.note.ABI-tag\x00")
	hash := []uint32{1, 1, 0, 0} // one bucket, one symbol
	note := o.abiNote()

	w := layoutOf(o.class)
	symbol := w.header + 3*w.prog
	hashAt := symbol + w.sym
	stringsAt := hashAt + 16
	dynamicAt := stringsAt + uint64(len(text))
	dynamic = append(dynamic, [][2]uint64{
		{uint64(elf.DT_HASH), hashAt}, {uint64(elf.DT_STRTAB), stringsAt},
		{uint64(elf.DT_SYMTAB), symbol}, {uint64(elf.DT_STRSZ), uint64(len(text))}, {uint64(elf.DT_SYMENT), w.sym}, {0, 0},
	}...)
	dynamicSize := uint64(len(dynamic)) * 2 * w.word
	noteAt := dynamicAt + dynamicSize
	noteSize := uint64(4 * len(note))
	namesAt := noteAt + noteSize
	sectionsAt := (namesAt + uint64(len(sectionNames)) + 7) &^ 7
	end := sectionsAt + 5*w.section

	var out bytes.Buffer
	put := func(parts ...any) {
		for _, p := range parts {
			_ = binary.Write(&out, binary.LittleEndian, p) // a Buffer returns no error
		}
	}
	put(w.makeHeader(sectionsAt))
	put(
		w.makeProg(elf.PT_LOAD, 0, end, 0x1000),
		w.makeProg(elf.PT_DYNAMIC, dynamicAt, dynamicSize, w.word),
		// Without it, loaders assume that an executable stack is required.
		w.makeProg(elf.PT_GNU_STACK, 0, 0, 16),
	)
	put(make([]byte, w.sym), hash, text)
	for _, entry := range dynamic {
		put(w.encodeWords(entry[0], entry[1]))
	}
	put(note, sectionNames, make([]byte, sectionsAt-namesAt-uint64(len(sectionNames))))
	put(
		w.makeSection(0, elf.SHT_NULL, 0, 0, 0),
		w.makeSection(1, elf.SHT_STRTAB, stringsAt, uint64(len(text)), 0),
		w.makeSection(9, elf.SHT_DYNAMIC, dynamicAt, dynamicSize, 1),
		w.makeSection(18, elf.SHT_STRTAB, namesAt, uint64(len(sectionNames)), 0),
	)
	if note != nil {
		put(w.makeSection(28, elf.SHT_NOTE, noteAt, noteSize, 0))
	} else {
		put(w.makeSection(0, elf.SHT_NULL, 0, 0, 0))
	}
	return out.Bytes()
}

// abiNote returns the content of .note.ABI-tag: the lengths of name and
// description, the type, the name, the system (Linux) and its version.
func (o elfObject) abiNote() []uint32 {
	if o.kernel == nil {
		return nil
	}
	return append([]uint32{4, 16, 1, binary.LittleEndian.Uint32([]byte("GNU\x00")), 0}, o.kernel...)
}

// elfLayout has the sizes that differ between 32 and 64 bits.
type elfLayout struct {
	class                            elf.Class
	word, header, prog, section, sym uint64
}

func layoutOf(class elf.Class) elfLayout {
	if class == elf.ELFCLASS32 {
		return elfLayout{class, 4, 52, 32, 40, elf.Sym32Size}
	}
	return elfLayout{class, 8, 64, 56, 64, elf.Sym64Size}
}

func (l elfLayout) encodeWords(values ...uint64) any {
	if l.word == 8 {
		return values
	}
	short := make([]uint32, len(values))
	for i, v := range values {
		short[i] = uint32(v)
	}
	return short
}

func (l elfLayout) makeHeader(sectionsAt uint64) any {
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(l.class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	if l.word == 4 {
		return elf.Header32{
			Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(elffile.HostMachine(l.class)), Version: 1,
			Phoff: uint32(l.header), Shoff: uint32(sectionsAt), Ehsize: uint16(l.header),
			Phentsize: uint16(l.prog), Phnum: 3, Shentsize: uint16(l.section), Shnum: 5, Shstrndx: 3,
		}
	}
	return elf.Header64{
		Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(elffile.HostMachine(l.class)), Version: 1,
		Phoff: l.header, Shoff: sectionsAt, Ehsize: uint16(l.header),
		Phentsize: uint16(l.prog), Phnum: 3, Shentsize: uint16(l.section), Shnum: 5, Shstrndx: 3,
	}
}

func (l elfLayout) makeProg(kind elf.ProgType, at, size, align uint64) any {
	const flags = uint32(elf.PF_R | elf.PF_W)
	if l.word == 4 {
		n, a, s := uint32(size), uint32(at), uint32(align)
		return elf.Prog32{Type: uint32(kind), Off: a, Vaddr: a, Paddr: a, Filesz: n, Memsz: n, Flags: flags, Align: s}
	}
	return elf.Prog64{Type: uint32(kind), Flags: flags, Off: at, Vaddr: at, Paddr: at, Filesz: size, Memsz: size, Align: align}
}

func (l elfLayout) makeSection(name uint32, kind elf.SectionType, at, size uint64, link uint32) any {
	if l.word == 4 {
		return elf.Section32{Name: name, Type: uint32(kind), Addr: uint32(at), Off: uint32(at), Size: uint32(size), Link: link, Addralign: 1}
	}
	return elf.Section64{Name: name, Type: uint32(kind), Addr: at, Off: at, Size: size, Link: link, Addralign: 1}
}
