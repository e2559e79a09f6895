package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gantry.dev/cmd/gantry/bench/machine"
)

// Peer is what a program beside Gantry did.
type Peer struct {
	Rounds          int     `json:"rounds"`
	Seconds         float64 `json:"secs"`
	P50Ms           float64 `json:"p50_ms"`
	P99Ms           float64 `json:"p99_ms"`
	RoundsPerSecond float64 `json:"roundsPerSecond"`
	CPUMs           float64 `json:"cpuMs"` // of a round: of its processes and the database's
}

// beside runs the program of a store. It is told what to do by {conc}, {secs},
// {rounds} and {file}, a path where nothing is. It prints BEGIN when it is warm
// and END with a JSON object of rounds, secs, p50_ms and p99_ms.
func (c Config) beside(ctx context.Context, h *house, concurrency int) (*Peer, error) {
	command := c.Beside.SQLite
	if h.database.Name() == "PostgreSQL" {
		command = c.Beside.Postgres
	}
	if command == "" {
		return nil, nil
	}
	file := filepath.Join(h.folder, "beside-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	command = strings.NewReplacer("{conc}", strconv.Itoa(concurrency), "{secs}", fmt.Sprint(c.For.Seconds()), "{rounds}", strconv.Itoa(c.Rounds), "{file}", file).Replace(command)
	peer, err := watch(ctx, command, h.database.CPU)
	if err != nil {
		return nil, fmt.Errorf("beside: %w", err)
	}
	return peer, nil
}

// watch runs a command and weighs what it uses between BEGIN and END.
func watch(ctx context.Context, command string, server func() time.Duration) (*Peer, error) {
	program := exec.CommandContext(ctx, "sh", "-c", command) //nolint:gosec // the operator's own command
	out, err := program.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := program.Start(); err != nil {
		return nil, err
	}
	used := func() time.Duration { return machine.TreeCPU(program.Process.Pid) + server() }
	var before time.Duration
	var peer *Peer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "BEGIN" {
			before = used()
		}
		if result, ok := strings.CutPrefix(line, "END "); ok {
			spent := used() - before
			peer = &Peer{}
			if err := json.Unmarshal([]byte(result), peer); err != nil {
				return nil, errors.Join(fmt.Errorf("what follows END: %w", err), program.Wait())
			}
			peer.RoundsPerSecond = machine.Over(float64(peer.Rounds), peer.Seconds)
			peer.CPUMs = machine.Over(spent.Seconds()*1000, float64(peer.Rounds))
		}
	}
	if err := errors.Join(lines.Err(), program.Wait()); err != nil {
		return nil, err
	}
	if peer == nil {
		return nil, errors.New("the program printed no END")
	}
	return peer, nil
}

// judgePeer compares with the program beside.
func (r *Report) judgePeer(store string, concurrency int, samples []Sample) {
	if len(samples) == 0 || samples[0].Beside == nil {
		return
	}
	id, goals := "P2", map[int]*Goal{1: atLeast(1.5, 2), 16: atLeast(5, 8), 64: atLeast(6, 12)}
	var cpu *Goal
	if store == "PostgreSQL" {
		id, goals[64] = "P1", atLeast(8, 15)
		if concurrency == 64 {
			cpu = atMost(1.0/8, 1.0/15)
		}
	}
	figure := func(id, name, unit string, goal *Goal, value func(s Sample) float64) {
		r.add(Figure{ID: id, Store: store, Name: fmt.Sprintf("%s, %d at once", name, concurrency), Unit: unit, Goal: goal}, each(samples, value)...)
	}
	figure("beside", "rounds a second of the program beside", "1/s", nil, func(s Sample) float64 { return s.Beside.RoundsPerSecond })
	figure("beside", "CPU for a round of the program beside", "ms", nil, func(s Sample) float64 { return s.Beside.CPUMs })
	figure(id, "rounds a second to the program beside", "", goals[concurrency], func(s Sample) float64 {
		return machine.Over(s.Load.RoundsPerSecond(), s.Beside.RoundsPerSecond)
	})
	figure("P3", "CPU for a round to the program beside", "", cpu, func(s Sample) float64 {
		return machine.Over(s.Load.CPUMs+s.Load.DatabaseCPUMs, s.Beside.CPUMs)
	})
}
