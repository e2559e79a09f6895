package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// ErrNotice means that a message is no notice of ours.
var ErrNotice = errors.New("the message is no notice")

// Committed is one record with its place among all that its writer committed.
type Committed struct {
	N            uint64 // of the writer, from 1, without gaps
	Organisation string
	Record       run.Record
}

// Batch is what one commit of one writer wrote.
type Batch struct {
	Writer  string
	Rows    []Committed    // at least one, N ascending by one
	Entries []engine.Entry // of conversations, numbered
	Inboxes []string       // organisations whose inbox changed
	Due     bool           // a run in it wants a worker now
}

// Span is a stretch of records of one run.
type Span struct {
	Organisation string `json:"organisation,omitempty"` // empty when told from the journal later
	Run          string `json:"run"`
	From         uint64 `json:"from"` // Seq of the first record
	To           uint64 `json:"to"`   // Seq of the last record
}

// Place is the newest entry of a conversation.
type Place struct {
	Organisation string `json:"organisation"`
	Conversation string `json:"conversation"`
	Number       uint64 `json:"number"`
}

// Notice says what a batch changed and holds nothing of its content: who hears
// it reads the journal, so a forged notice can only cause a reading.
type Notice struct {
	Runs          []Span   `json:"runs,omitempty"`
	Conversations []Place  `json:"conversations,omitempty"`
	Inboxes       []string `json:"inboxes,omitempty"`
}

// NoticeOf sums up a batch.
func NoticeOf(batch Batch) Notice {
	var n Notice
	spans := map[string]int{}
	for _, row := range batch.Rows {
		at, seen := spans[row.Record.Run]
		if !seen {
			spans[row.Record.Run] = len(n.Runs)
			n.Runs = append(n.Runs, Span{Organisation: row.Organisation, Run: row.Record.Run, From: row.Record.Seq, To: row.Record.Seq})
			continue
		}
		n.Runs[at].From, n.Runs[at].To = min(n.Runs[at].From, row.Record.Seq), max(n.Runs[at].To, row.Record.Seq)
	}
	places := map[conversation]int{}
	for _, entry := range batch.Entries {
		key := conversation{entry.Organisation, entry.Conversation}
		at, seen := places[key]
		if !seen {
			places[key] = len(n.Conversations)
			n.Conversations = append(n.Conversations, Place{entry.Organisation, entry.Conversation, entry.Number})
			continue
		}
		n.Conversations[at].Number = max(n.Conversations[at].Number, entry.Number)
	}
	n.Inboxes = batch.Inboxes
	return n
}

// noticeMessage is the message of a batch. A batch that is told again, cut the
// same way, has the same id.
func noticeMessage(batch Batch) (Message, error) {
	notice := NoticeOf(batch)
	body, err := json.Marshal(notice)
	if err != nil {
		return Message{}, err
	}
	from, to := batch.Rows[0].N, batch.Rows[len(batch.Rows)-1].N
	m := Message{ID: fmt.Sprintf("%s:%d-%d", batch.Writer, from, to), Body: body, Metadata: map[string]string{
		MetaWriter: batch.Writer, MetaFrom: fmt.Sprint(from), MetaTo: fmt.Sprint(to),
	}}
	if len(notice.Runs) == 1 {
		m.Metadata[MetaRun] = notice.Runs[0].Run
		if organisation := notice.Runs[0].Organisation; organisation != "" {
			m.Metadata[MetaOrganisation] = organisation
		}
	}
	return m, nil
}

// readStrict decodes one JSON value with nothing unknown or doubtful in it.
func readStrict(body []byte, into any) error {
	canonical, err := canon.JSON(body)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(canonical))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func readNotice(m Message) (Notice, error) {
	var n Notice
	if err := json.Unmarshal(m.Body, &n); err != nil {
		return Notice{}, ErrNotice
	}
	return n, nil
}
