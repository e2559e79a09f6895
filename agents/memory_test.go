package agents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

func remembering() agents.Organisation {
	o := agents.Organisation{Name: "acme", Departments: []agents.Department{{Name: "hr"}, {Name: "sales"}},
		Labels: []agents.LabelRule{{Name: "pay", Owner: "ruth", Open: true}, {Name: "case", Owner: "ruth"}},
		Principals: []policy.Principal{
			{ID: "ruth", Kind: policy.Person, Organisation: "acme", Department: "hr", Roles: []string{"partner"}, Clearance: policy.NewLabels("case", "pay")},
			{ID: "liam", Kind: policy.Person, Organisation: "acme", Department: "sales"},
		}}
	o.Memory.Grants = []agents.SpaceGrant{{Space: view.Organisation, Writers: []string{"role:partner"}}, {Space: "department:sales", Readers: []string{"ruth"}}}
	return o
}

// Each reads what is theirs, their department's, everybody's and what was
// granted; and is told only of the labels that they may know.
func TestAReaderHasTheSpacesThatAreTheirs(t *testing.T) {
	o := remembering()
	ruth, _ := o.Principal("ruth")
	liam, _ := o.Principal("liam")
	reader := o.Reader(ruth, "c1")
	require.Equal(t, []view.Space{"conversation:c1", "department:hr", "department:sales", "organisation", "person:ruth"}, reader.Read)
	require.Equal(t, []view.Space{"conversation:c1", "department:hr", "organisation", "person:ruth"}, reader.Write)
	reader = o.Reader(liam)
	require.Equal(t, []view.Space{"department:sales", "organisation", "person:liam"}, reader.Read)
	require.Equal(t, []view.Space{"department:sales", "person:liam"}, reader.Write)
	require.Equal(t, policy.NewLabels("pay"), reader.Knows)
	ruth.Organisation = "other"
	require.Empty(t, o.Reader(ruth).Read)
}

// A run reads no more than its subject, its authority and its agent each may.
func TestARunReadsTheMeetOfSubjectAndAuthority(t *testing.T) {
	o := remembering()
	ruth, _ := o.Principal("ruth")
	run := o.RunReader(ruth, "helper", "c1", policy.Authority{Labels: policy.NewLabels("pay", "other"),
		ReadSpaces: []string{"agent", "conversation", "department:hr", "department:finance", "subject"}, WriteSpaces: []string{"organisation", "subject"}})
	require.Equal(t, []view.Space{"conversation:c1", "department:hr", "person:ruth"}, run.Read)
	require.Equal(t, []view.Space{"organisation", "person:ruth"}, run.Write)
	require.Equal(t, policy.NewLabels("pay"), run.Clearance)
	require.Empty(t, run.Knows)
	require.Empty(t, o.RunReader(ruth, "helper", "", policy.Authority{ReadSpaces: []string{"conversation"}}).Read)
}

func TestTheLongestPrefixSaysWhereADocumentGoes(t *testing.T) {
	o := remembering()
	o.Memory.Folders = []agents.FolderRule{{Prefix: "hr", Integrity: policy.FromTool}, {Prefix: "hr/pay-bands.md", Labels: policy.NewLabels("pay")}}
	require.Equal(t, policy.NewLabels("pay"), o.Folder("hr/pay-bands.md").Labels)
	require.Equal(t, policy.FromTool, o.Folder("hr/leave.md").Integrity)
	require.Zero(t, o.Folder("elsewhere.md"))
	require.Zero(t, o.Folder("hrx/leave.md"))
}
