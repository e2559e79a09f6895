package bus

import "time"

// Topic is the name of a place where messages are told. A bus puts its
// namespace and a dot before it: "gantry.events".
type Topic string

// The topics.
const (
	TopicEvents   Topic = "events"   // a Notice for every committed batch; to every process
	TopicDue      Topic = "due"      // runs may be claimed; to every process
	TopicText     Topic = "text"     // text of a turn in progress, see TextDelta; to every process
	TopicMemory   Topic = "memory"   // something is queued for memory's index; to every process
	TopicCommands Topic = "commands" // wishes from outside, see Receiver; to one process each
	TopicParked   Topic = "parked"   // commands that could not be taken, see Parked
)

// Metadata keys of messages.
const (
	MetaAuthorization = "authorization" // of a command: "Bearer " and a token
	MetaWriter        = "writer"        // of a notice: who committed the batch
	MetaFrom          = "from"          // of a notice: the writer's number of the first record
	MetaTo            = "to"            // of a notice: the writer's number of the last record
	MetaOrganisation  = "organisation"  // of a notice about one run only
	MetaRun           = "run"           // of a notice about one run only
)

// keeping says how a broker keeps the messages of a topic. Everything told can
// be told again from the journal, so old messages make room for new ones; only
// commands exist nowhere else, so a full topic refuses them.
type keeping struct {
	age      time.Duration
	bytes    int64
	memory   bool // need not survive the broker
	queue    bool // each message goes to one process and is gone once settled
	distinct time.Duration
}

var kept = map[Topic]keeping{
	TopicEvents:   {age: time.Hour, bytes: 256 << 20, distinct: 2 * time.Minute},
	TopicDue:      {age: time.Minute, bytes: 8 << 20, memory: true, distinct: time.Minute},
	TopicText:     {age: 10 * time.Second, bytes: 32 << 20, memory: true, distinct: time.Second},
	TopicMemory:   {age: time.Minute, bytes: 8 << 20, memory: true, distinct: time.Second},
	TopicCommands: {bytes: 256 << 20, queue: true, distinct: 2 * time.Minute},
	TopicParked:   {age: 30 * 24 * time.Hour, bytes: 256 << 20, distinct: 2 * time.Minute},
}
