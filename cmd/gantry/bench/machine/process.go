// Package machine measures what lies under Gantry: processes, databases and
// their bare limits, without Gantry.
package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc.
const tick = 10 * time.Millisecond

// stat is what /proc says of one process.
type stat struct {
	pid, parent int
	name        string
	used        time.Duration // user and system
	children    time.Duration // the same of children that ended
}

// processes are all that can be seen; none where there is no /proc.
func processes() []stat {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []stat
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, ok := readStat(pid); ok {
			found = append(found, s)
		}
	}
	return found
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, false
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 15 {
		return stat{}, false
	}
	ticks := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * tick
	}
	parent, _ := strconv.Atoi(fields[1])
	return stat{pid: pid, parent: parent, name: string(text[open+1 : end]), used: ticks(11) + ticks(12), children: ticks(13) + ticks(14)}, true
}

// TreeCPU is what a process and its children have used, in steps of 10 ms; 0
// where that cannot be seen.
func TreeCPU(root int) time.Duration {
	kids, own := map[int][]stat{}, stat{}
	for _, s := range processes() {
		kids[s.parent] = append(kids[s.parent], s)
		if s.pid == root {
			own = s
		}
	}
	total, todo := own.used+own.children, kids[root]
	for len(todo) > 0 {
		next := todo[0]
		todo = append(todo[1:], kids[next.pid]...)
		total += next.used + next.children
	}
	return total
}

// namedCPU is what all processes of a name have used.
func namedCPU(name string) (total time.Duration) {
	for _, s := range processes() {
		if s.name == name {
			total += s.used + s.children
		}
	}
	return total
}

// BusyCPU is what the whole machine has used; 0 where that cannot be seen.
func BusyCPU() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var busy time.Duration
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err == nil && i != 4 && i != 5 && i < 9 { // idle, waiting for a disk, and guests that are counted already
			busy += time.Duration(n) * tick
		}
	}
	return busy
}

// Resident is the memory of a process that is in use, in bytes; 0 where that
// cannot be seen.
func Resident(pid int) uint64 { return procNumber(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:") << 10 }

// WrittenBytes is what this process had the disk write so far; 0 where that
// cannot be seen.
func WrittenBytes() uint64 { return procNumber("/proc/self/io", "write_bytes:") }

func procNumber(path, name string) uint64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == name {
			n, _ := strconv.ParseUint(fields[1], 10, 64)
			return n
		}
	}
	return 0
}
