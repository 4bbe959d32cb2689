package cgroup

import (
	"crypto/sha256"
	"fmt"

	"github.com/cilium/ebpf/asm"

	"mesos-gpu/isolator/rules"
)

// maxRules bounds the rules of one program.
const maxRules = 1024

// wildcard is rules.Any in a map key. Linux has no such device number.
const wildcard = ^uint32(0)

// ruleKey and its access bits are a rule in the program's map. The numbers are BPF_DEVCG_DEV_*
// and BPF_DEVCG_ACC_* of linux/bpf.h.
type ruleKey struct{ Kind, Major, Minor uint32 }

const (
	devBlock, devChar             = 1, 2
	accMknod, accRead, accWrite   = 1, 2, 4
	keySize, accessSize           = 12, 4
	keyKind, keyMajor, keyMinor   = -12, -8, -4 // where the key is on the stack
	ctxAccess, ctxMajor, ctxMinor = 0, 4, 8     // struct bpf_cgroup_dev_ctx
	accessShift, kindMask         = 16, 0xffff  // of its first field
	denied, allowed               = 0, 1
)

// buildProgram returns a program that decides by the rules in a map. A request passes if a
// single rule allows all of its access bits, as with the lists of version 1. The program looks
// up the rule of the device itself, then those with a wildcard for the minor number, the major
// number, or both.
func buildProgram(rulesMap int) asm.Instructions {
	list := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, ctxAccess, asm.Word),
		asm.Mov.Reg(asm.R8, asm.R7),
		asm.And.Imm(asm.R8, kindMask),
		asm.StoreMem(asm.RFP, keyKind, asm.R8, asm.Word),
		asm.RSh.Imm(asm.R7, accessShift),
	}
	for i, wild := range []struct{ major, minor bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		next := fmt.Sprintf("next%d", i)
		list = append(list, loadKeyNumber(keyMajor, ctxMajor, wild.major)...)
		list = append(list, loadKeyNumber(keyMinor, ctxMinor, wild.minor)...)
		list = append(list,
			asm.LoadMapPtr(asm.R1, rulesMap),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, keyKind),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, next),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
			asm.Xor.Imm(asm.R1, -1), // what the rule does not allow
			asm.And.Reg(asm.R1, asm.R7),
			asm.JEq.Imm(asm.R1, 0, "allow"),
			asm.Mov.Imm(asm.R0, denied).WithSymbol(next),
		)
	}
	return append(list, asm.Return(),
		asm.Mov.Imm(asm.R0, allowed).WithSymbol("allow"), asm.Return())
}

// loadKeyNumber stores a number of the request, or a wildcard, in the key.
func loadKeyNumber(to, from int16, wild bool) asm.Instructions {
	if wild {
		return asm.Instructions{asm.StoreImm(asm.RFP, to, -1, asm.Word)}
	}
	return asm.Instructions{asm.LoadMem(asm.R1, asm.R6, from, asm.Word), asm.StoreMem(asm.RFP, to, asm.R1, asm.Word)}
}

// programVersion returns a suffix of the program's name that changes with the program.
func programVersion(list asm.Instructions) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(list)))
	return fmt.Sprintf("%x", sum[:2])
}

// encodeRules converts rules to the entries of the program's map.
func encodeRules(list []rules.DeviceRule) (map[ruleKey]uint32, error) {
	entries := make(map[ruleKey]uint32, len(list))
	for _, r := range rules.MergeRules(list) {
		k, err := encodeKey(r)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", r, err)
		}
		entries[k] = encodeAccess(r)
	}
	if len(entries) > maxRules {
		return nil, fmt.Errorf("%d rules, a program holds %d", len(entries), maxRules)
	}
	return entries, nil
}

func encodeKey(r rules.DeviceRule) (ruleKey, error) {
	k := ruleKey{Kind: devChar}
	switch r.Kind {
	case 'b':
		k.Kind = devBlock
	case 'c':
	default:
		return ruleKey{}, fmt.Errorf("kind %c is neither b nor c", r.Kind)
	}
	for _, n := range []struct {
		to   *uint32
		from int64
	}{{&k.Major, r.Major}, {&k.Minor, r.Minor}} {
		if n.from != rules.AnyNumber && (n.from < 0 || n.from >= int64(wildcard)) {
			return ruleKey{}, fmt.Errorf("%d is no device number", n.from)
		}
		*n.to = uint32(n.from)
	}
	return k, nil
}

// accessLetters maps the letters of a rule to the kernel's bits.
var accessLetters = []struct {
	letter rune
	bit    uint32
}{{'r', accRead}, {'w', accWrite}, {'m', accMknod}}

func encodeAccess(r rules.DeviceRule) (bits uint32) {
	for _, letter := range r.Access {
		for _, a := range accessLetters {
			if a.letter == letter {
				bits |= a.bit
			}
		}
	}
	return bits
}

// decodeRule converts an entry of the map to a rule.
func decodeRule(k ruleKey, bits uint32) rules.DeviceRule {
	r := rules.DeviceRule{Kind: 'c', Major: int64(k.Major), Minor: int64(k.Minor)}
	if k.Kind == devBlock {
		r.Kind = 'b'
	}
	if k.Major == wildcard {
		r.Major = rules.AnyNumber
	}
	if k.Minor == wildcard {
		r.Minor = rules.AnyNumber
	}
	for _, a := range accessLetters {
		if bits&a.bit != 0 {
			r.Access += string(a.letter)
		}
	}
	return r
}
