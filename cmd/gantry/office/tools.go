package office

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools.
const (
	toolFind   = "mail_search"
	toolLetter = "mail_read"
	toolDraft  = "mail_draft"
	toolSend   = "mail_send"
	toolEvents = "calendar_list"
	toolEnter  = "calendar_add"
	toolFiles  = "file_list"
	toolFile   = "file_read"
	toolWrite  = "file_write"
)

// KeyName is where in a request's metadata its client puts the key of the
// request: what was done under a key is not done again where that can be known.
const KeyName = "dev.gantry/idempotency-key"

// Server returns the office's tools as a server of the protocol.
func (o *Office) Server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "office", Title: "Office", Version: "1.0.0"}, nil)
	o.mailTools(s)
	o.calendarTools(s)
	o.fileTools(s)
	return s
}

type (
	findIn struct {
		Box  string `json:"box" jsonschema:"INBOX, DRAFTS or SENT"`
		Word string `json:"word" jsonschema:"word that stands in sender, subject or text; empty for all"`
	}
	mails struct {
		Mail []Mail `json:"mail"`
	}
	letterIn struct {
		ID int64 `json:"id" jsonschema:"number of the message"`
	}
	mailIn struct {
		To      string `json:"to" jsonschema:"address of the recipient"`
		Subject string `json:"subject"`
		Text    string `json:"text"`
	}
	eventsIn struct {
		From  string `json:"from" jsonschema:"first moment, RFC 3339"`
		Until string `json:"until" jsonschema:"first moment after, RFC 3339"`
	}
	events struct {
		Events []Event `json:"events"`
	}
	eventIn struct {
		Title     string `json:"title"`
		Starts    string `json:"starts" jsonschema:"RFC 3339, UTC"`
		Ends      string `json:"ends" jsonschema:"RFC 3339, UTC"`
		Attendees string `json:"attendees" jsonschema:"addresses, joined by a comma and a space; empty for nobody"`
	}
	filesIn struct {
		Prefix string `json:"prefix" jsonschema:"beginning of the paths; empty for all"`
	}
	listing struct {
		Files []File `json:"files"`
	}
	fileIn struct {
		Path string `json:"path"`
	}
	writeIn struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}
)

var (
	no      = false
	reads   = &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	changes = &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
)

func (o *Office) mailTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: toolFind, Description: "Lists messages of a mail box, latest first.", Annotations: reads},
		func(ctx context.Context, _ *mcp.CallToolRequest, in findIn) (*mcp.CallToolResult, mails, error) {
			found, err := o.Find(ctx, in.Box, in.Word)
			return answer(mails{found}, err)
		})
	mcp.AddTool(s, &mcp.Tool{Name: toolLetter, Description: "Returns one message with its text.", Annotations: reads},
		func(ctx context.Context, _ *mcp.CallToolRequest, in letterIn) (*mcp.CallToolResult, Mail, error) {
			return answer(o.Letter(ctx, in.ID))
		})
	mcp.AddTool(s, &mcp.Tool{Name: toolDraft, Description: "Keeps a message among the drafts; nothing is sent.", Annotations: changes},
		func(ctx context.Context, r *mcp.CallToolRequest, in mailIn) (*mcp.CallToolResult, Mail, error) {
			return did(o, toolDraft, func() (Mail, error) {
				return o.Draft(ctx, Mail{To: in.To, Subject: in.Subject, Text: in.Text, Key: key(r)})
			})
		})
	mcp.AddTool(s, &mcp.Tool{Name: toolSend, Description: "Sends a message.", Annotations: &mcp.ToolAnnotations{}},
		func(ctx context.Context, _ *mcp.CallToolRequest, in mailIn) (*mcp.CallToolResult, Mail, error) {
			return did(o, toolSend, func() (Mail, error) { return o.Send(ctx, Mail{To: in.To, Subject: in.Subject, Text: in.Text}) })
		})
}

func (o *Office) calendarTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: toolEvents, Description: "Lists what is in the calendar.", Annotations: reads},
		func(ctx context.Context, _ *mcp.CallToolRequest, in eventsIn) (*mcp.CallToolResult, events, error) {
			from, err := moment(in.From)
			if err != nil {
				return answer(events{}, err)
			}
			until, err := moment(in.Until)
			if err != nil {
				return answer(events{}, err)
			}
			found, err := o.Events(ctx, from, until)
			return answer(events{found}, err)
		})
	mcp.AddTool(s, &mcp.Tool{Name: toolEnter, Description: "Puts an event into the calendar.", Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}},
		func(ctx context.Context, r *mcp.CallToolRequest, in eventIn) (*mcp.CallToolResult, Event, error) {
			starts, err := moment(in.Starts)
			if err != nil {
				return answer(Event{}, err)
			}
			ends, err := moment(in.Ends)
			if err != nil || ends <= starts {
				return answer(Event{}, errors.Join(err, errBounds))
			}
			return did(o, toolEnter, func() (Event, error) {
				return o.Enter(ctx, Event{Title: in.Title, Starts: starts, Ends: ends, Attendees: in.Attendees, Key: key(r)})
			})
		})
}

func (o *Office) fileTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: toolFiles, Description: "Lists files.", Annotations: reads},
		func(ctx context.Context, _ *mcp.CallToolRequest, in filesIn) (*mcp.CallToolResult, listing, error) {
			found, err := o.Files(ctx, in.Prefix)
			return answer(listing{found}, err)
		})
	mcp.AddTool(s, &mcp.Tool{Name: toolFile, Description: "Returns a file with its text, and under which key it was written last.", Annotations: reads},
		func(ctx context.Context, _ *mcp.CallToolRequest, in fileIn) (*mcp.CallToolResult, File, error) {
			return answer(o.File(ctx, in.Path))
		})
	mcp.AddTool(s, &mcp.Tool{Name: toolWrite, Description: "Writes a file whole.", Annotations: changes},
		func(ctx context.Context, r *mcp.CallToolRequest, in writeIn) (*mcp.CallToolResult, File, error) {
			return did(o, toolWrite, func() (File, error) { return o.Write(ctx, File{Path: in.Path, Text: in.Text, Key: key(r)}) })
		})
}

var (
	errMoment = errors.New("a moment is written like 2026-05-04T09:00:00Z")
	errBounds = errors.New("an event ends after it starts")
)

// moment is a time in the one form in which times can be compared as texts.
func moment(text string) (string, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", errMoment
	}
	return at.UTC().Format(time.RFC3339), nil
}

// key is what the client calls the request.
func key(r *mcp.CallToolRequest) string {
	name, _ := r.Params.GetMeta()[KeyName].(string)
	return name
}

// did does something and says so, unless the connection is to break in between.
func did[T any](o *Office, tool string, do func() (T, error)) (*mcp.CallToolResult, T, error) {
	done, err := do()
	if err == nil {
		o.beforeReply(tool)
	}
	return answer(done, err)
}

// answer says what was found, and of a fault only what the caller can mend.
func answer[T any](found T, err error) (*mcp.CallToolResult, T, error) { //nolint:unparam // the form of a handler of the protocol
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, found, errors.New("there is none")
	case errors.Is(err, errMoment), errors.Is(err, errBounds):
		return nil, found, err
	case err != nil:
		return nil, found, errors.New("the office cannot do that now")
	}
	return nil, found, nil
}
