package client

import (
	"context"
	"strings"
	"time"
)

// Approver is who may decide: a principal or a role.
type Approver struct {
	Principal *Actor `json:"principal"`
	Role      string `json:"role"`
	Why       string `json:"why"`
}

// String names the approver and why they are asked.
func (a Approver) String() string {
	name := a.Role
	if a.Principal != nil {
		name = a.Principal.Principal
	}
	return name + " (" + a.Why + ")"
}

// Approval is a request for people's decision on one exact call.
type Approval struct {
	ID          string     `json:"id"` // global
	Status      string     `json:"status"`
	Digest      string     `json:"digest"` // what it binds
	Run         string     `json:"run"`    // global id
	Call        int        `json:"call"`
	Tool        string     `json:"tool"`
	Operation   string     `json:"operation"`
	Resource    string     `json:"resource"`
	Arguments   Text       `json:"arguments"` // canonical JSON
	Consequence string     `json:"consequence"`
	Impact      string     `json:"impact"`
	CostBound   int64      `json:"costBound,string"` // micro-dollars
	EffectClass string     `json:"effectClass"`
	Guarantee   string     `json:"guarantee"`
	Requester   Actor      `json:"requester"`
	Subject     Actor      `json:"subject"`
	Integrity   string     `json:"integrity"`
	Reasons     []Reason   `json:"reasons"`
	Approvers   []Approver `json:"approvers"`
	Quorum      int        `json:"quorum"`
	Decisions   []Decision `json:"decisions"` // so far
	VoidCause   string     `json:"voidCause"` // empty unless it is void
	ExpiresAt   time.Time  `json:"expiresAt"`
}

// Decision is one person's word on an approval.
type Decision struct {
	By      Actor `json:"by"`
	Granted bool  `json:"granted"`
}

// Question is the model's question to a person.
type Question struct {
	ID        string     `json:"id"` // global
	Status    string     `json:"status"`
	Run       string     `json:"run"` // global id
	Call      int        `json:"call"`
	Question  Text       `json:"question"` // arguments of the asking call, canonical JSON
	Ask       *ServerAsk `json:"ask"`      // nil for a question of the model
	To        []Approver `json:"to"`
	ExpiresAt time.Time  `json:"expiresAt"`
}

// Access is a request for something that a run may not use yet.
type Access struct {
	ID          string     `json:"id"` // global
	Status      string     `json:"status"`
	Digest      string     `json:"digest"` // what it binds
	Run         string     `json:"run"`    // global id
	Thing       string     `json:"thing"`
	Name        string     `json:"name"` // empty for a budget
	Call        int        `json:"call"`
	Tool        string     `json:"tool"`      // of the call that waits
	Arguments   Text       `json:"arguments"` // of that call, canonical JSON
	Definition  string     `json:"definition"`
	Consequence string     `json:"consequence"`
	Guarantee   string     `json:"guarantee"`
	CostBound   int64      `json:"costBound,string"` // micro-dollars
	More        *Amount    `json:"more"`             // nil unless it asks for a budget
	Bounds      *ToolUse   `json:"bounds"`           // nil unless it asks for a tool
	Prices      *Prices    `json:"prices"`           // nil unless it asks for a model
	Scopes      []string   `json:"scopes"`           // RUN, CONVERSATION and AGENT, as far as a yes may reach
	Requester   Actor      `json:"requester"`
	Subject     Actor      `json:"subject"`
	Integrity   string     `json:"integrity"`
	Approvers   []Approver `json:"approvers"`
	Decision    *Decision  `json:"decision"`
	Scope       string     `json:"scope"`     // of a yes
	Proposed    *Proposed  `json:"proposed"`  // with a yes for the agent
	Grant       string     `json:"grant"`     // that a yes rests on
	VoidCause   string     `json:"voidCause"` // empty unless it is void
	ExpiresAt   time.Time  `json:"expiresAt"`
}

// ServerAsk is what the server of a tool wants to know before it does a call.
type ServerAsk struct {
	Origin string `json:"origin"` // name of the server
	Kind   string `json:"kind"`   // FORM or URL
	Form   *Text  `json:"form"`   // JSON: message with schema, or with url and host
}

// Prices are micro-dollars for a million tokens.
type Prices struct {
	Input      int64 `json:"input,string"`
	CacheRead  int64 `json:"cacheRead,string"`
	CacheWrite int64 `json:"cacheWrite,string"`
	Output     int64 `json:"output,string"`
}

// Proposed is a revision of an agent that was proposed with a yes.
type Proposed struct {
	Agent    string `json:"agent"`
	Digest   string `json:"digest"`
	Manifest string `json:"manifest"` // empty where it does not wait, or is not the viewer's to read
}

// Word is what the owner of a thing says to a request for it.
type Word struct {
	Granted bool
	Scope   string     // of a yes: RUN, CONVERSATION or AGENT; empty: RUN
	Until   *time.Time // when a yes for the conversation ends; nil: never
	Reason  string
}

// Item is one thing that waits for the viewer. Of Approval, Question, Access, Limit,
// Uncertain and Parked the one of its kind is there.
type Item struct {
	ID        string     `json:"id"`   // within the organisation
	Kind      string     `json:"kind"` // APPROVAL, QUESTION, ACCESS, LIMIT, UNCERTAIN or PARKED
	Since     time.Time  `json:"since"`
	ExpiresAt *time.Time `json:"expiresAt"`
	Run       Run        `json:"run"`
	Approval  *Approval  `json:"approval"`
	Count     int        `json:"count"`  // calls that wait, Approval's among them
	Others    []Approval `json:"others"` // that stand together with Approval; each is decided by itself
	Question  *Question  `json:"question"`
	Access    *Access    `json:"access"`
	Limit     *Limit     `json:"limit"`
	Actions   []string   `json:"actions"` // what the viewer may do about it
	Uncertain []Call     `json:"uncertain"`
	Parked    *Parked    `json:"parked"`

	OnBehalfOf  *Actor     `json:"onBehalfOf"` // whose deputy the viewer reacts as; nil: it waits for the viewer
	Onlooker    bool       `json:"onlooker"`   // it is only shown, because nobody reacted
	RemindedAt  *time.Time `json:"remindedAt"`
	EscalatedAt *time.Time `json:"escalatedAt"`
	DueAt       *time.Time `json:"dueAt"` // when it is escalated unless somebody reacts
}

const (
	approvalFields = ` fragment A on Approval{id status digest run call tool operation resource arguments{...T} consequence impact costBound
 effectClass guarantee requester{...P} subject{...P} integrity reasons{policy text} approvers{...W} quorum
 decisions{by{...P} granted} voidCause expiresAt}`
	questionFields = ` fragment Q on Question{id status run call question{...T} ask{origin kind form{...T}} to{...W} expiresAt}`
	accessFields   = ` fragment X on AccessRequest{id status digest run thing name call tool arguments{...T} definition consequence guarantee costBound
 more{money tokens} bounds{impact calls bounded} prices{input cacheRead cacheWrite output} scopes scope proposed{agent digest manifest} requester{...P} subject{...P} integrity approvers{...W} decision{by{...P} granted} grant voidCause expiresAt}`
	itemFields = `{id kind since expiresAt run{...R lineage{run kind agent agentRevision}} approval{...A} count others{...A} question{...Q} access{...X} limit{limit detail approvers{...W}} actions
 uncertain{...C} parked{code detail} onBehalfOf{...P} onlooker remindedAt escalatedAt dueAt}}` + runFields + callFields + approvalFields + questionFields + accessFields

	decisionsDocument = `query($filter:RunFilter,$first:Int!,$after:Cursor){runs(filter:$filter,first:$first,after:$after){
 edges{node{id version approvals{id status decisions{by{...P} granted} voidCause}}} pageInfo{hasNextPage endCursor}}}` + actorFields

	inboxDocument        = `{inbox` + itemFields
	inboxChangedDocument = `subscription{inboxChanged` + itemFields
	decideDocument       = `mutation($input:DecideApprovalInput!){done:decideApproval(input:$input)` + payload
	accessDocument       = `mutation($input:DecideAccessInput!){done:decideAccess(input:$input)` + payload
	requestsDocument     = `query($id:ID!){run(id:$id){accesses{...X}}}` + accessFields + textFields + actorFields + whoFields
	answerDocument       = `mutation($input:AnswerQuestionInput!){done:answerQuestion(input:$input)` + payload
)

// Inbox reads what waits for the viewer. Errors: *Error.
func (c *Client) Inbox(ctx context.Context) ([]Item, error) {
	var got struct{ Inbox []Item }
	err := c.Ask(ctx, inboxDocument, nil, &got)
	return got.Inbox, err
}

// InboxChanges visits the inbox, whole, at once and whenever it changed, until
// visit wants no more. Errors: *Error, those of visit and of the context.
func (c *Client) InboxChanges(ctx context.Context, visit func(items []Item) (more bool, err error)) error {
	type told struct{ InboxChanged []Item }
	return follow(ctx, c, inboxChangedDocument, map[string]any{}, "", func(got told) (string, bool, error) {
		more, err := visit(got.InboxChanged)
		return "", more, err
	})
}

// Approval finds an open approval in the viewer's inbox by its global id or its
// id within the organisation. Errors: *Error with NOT_FOUND.
func (c *Client) Approval(ctx context.Context, id string) (Approval, error) {
	items, err := c.Inbox(ctx)
	if err != nil {
		return Approval{}, err
	}
	for _, item := range items {
		if a := item.Approval; a != nil && (item.ID == id || a.ID == id) {
			return *a, nil
		}
		for _, a := range item.Others {
			if a.ID == id || ShortID(a.ID) == id {
				return a, nil
			}
		}
	}
	return Approval{}, c.notOpen(ctx, id)
}

// notOpen says that an approval waits for the viewer no longer, and who decided
// it, as far as the viewer's latest runs tell.
func (c *Client) notOpen(ctx context.Context, id string) error {
	runs, err := c.pages(ctx, decisionsDocument, Filter{}, latest)
	if err != nil {
		return err
	}
	for _, r := range runs {
		for _, a := range r.Approvals {
			if a.ID == id || ShortID(a.ID) == id {
				return &Error{Code: "NOT_FOUND", Message: "Approval " + ShortID(id) + " is " + a.stands() + "."}
			}
		}
	}
	return notInInbox("approval", id)
}

// latest is how many runs are looked through.
const latest = 50

// stands says in words where an approval stands that the viewer cannot decide.
func (a Approval) stands() string {
	words := "no longer open: " + a.Status
	if a.Status == "OPEN" {
		words = "open, but not for you to decide"
	}
	if a.VoidCause != "" {
		words += " because " + a.VoidCause
	}
	for _, decision := range a.Decisions {
		word := "denied"
		if decision.Granted {
			word = "granted"
		}
		words += "; " + decision.By.Principal + " " + word + " it"
	}
	return words
}

// Question finds an open question in the viewer's inbox by its global id or its
// id within the organisation. Errors: *Error with NOT_FOUND.
func (c *Client) Question(ctx context.Context, id string) (Question, error) {
	items, err := c.Inbox(ctx)
	if err != nil {
		return Question{}, err
	}
	for _, item := range items {
		if q := item.Question; q != nil && (item.ID == id || q.ID == id) {
			return *q, nil
		}
	}
	return Question{}, notInInbox("question", id)
}

func notInInbox(noun, id string) error {
	return &Error{Code: "NOT_FOUND", Message: "Your inbox holds no " + noun + " " + strings.TrimSpace(id) + "; see what it holds with the inbox command."}
}

// Decide decides the exact call that the approval shows. Reason may be empty.
// Errors: *Error.
func (c *Client) Decide(ctx context.Context, approval Approval, grant bool, reason string) (Run, error) {
	input := map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "DENY"}
	if grant {
		input["decision"] = "APPROVE"
	}
	if reason != "" {
		input["reason"] = reason
	}
	return c.changeRun(ctx, decideDocument, input)
}

// Answer answers a question of the model. Errors: *Error.
func (c *Client) Answer(ctx context.Context, question Question, text string) (Run, error) {
	return c.changeRun(ctx, answerDocument, map[string]any{"id": question.ID, "answer": text})
}

// Respond answers what a server asks: ACCEPT with the values as a JSON object,
// DECLINE or CANCEL. Errors: *Error.
func (c *Client) Respond(ctx context.Context, question Question, action, values string) (Run, error) {
	return c.changeRun(ctx, answerDocument, map[string]any{"id": question.ID, "answer": values, "action": action})
}

// Access finds an open request for access in the viewer's inbox by its global id
// or its id within the organisation. Errors: *Error with NOT_FOUND.
func (c *Client) Access(ctx context.Context, id string) (Access, error) {
	items, err := c.Inbox(ctx)
	if err != nil {
		return Access{}, err
	}
	for _, item := range items {
		if a := item.Access; a != nil && (item.ID == id || a.ID == id) {
			return *a, nil
		}
	}
	return Access{}, notInInbox("request", id)
}

// DecideAccess says whether what the request shows may be used, and how far. It
// returns the request as it is then, and its run. Errors: *Error.
func (c *Client) DecideAccess(ctx context.Context, access Access, word Word) (Access, Run, error) {
	input := map[string]any{"id": access.ID, "digest": access.Digest, "decision": "REFUSE"}
	if word.Granted {
		input["decision"] = "CONSENT"
	}
	if word.Scope != "" {
		input["scope"] = word.Scope
	}
	if word.Until != nil {
		input["until"] = word.Until
	}
	if word.Reason != "" {
		input["reason"] = word.Reason
	}
	decided, err := c.changeRun(ctx, accessDocument, input)
	if err != nil {
		return access, decided, err
	}
	requests, err := c.Requests(ctx, decided.ID)
	for _, request := range requests {
		if request.ID == access.ID {
			access = request
		}
	}
	return access, decided, err
}

// Requests reads what a run asked for. Errors: *Error.
func (c *Client) Requests(ctx context.Context, run string) ([]Access, error) {
	var got struct{ Run struct{ Accesses []Access } }
	err := c.Ask(ctx, requestsDocument, map[string]any{"id": run}, &got)
	return got.Run.Accesses, err
}
