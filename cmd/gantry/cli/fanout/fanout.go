// Package fanout shows a research of the sample organisation: one question, many
// documents, twenty branches of which two fail, what is kept of it, and what a
// person gets of that who may not see one of the documents.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/cli/research"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/deploy/sample/library"
)

// Question is what is looked into.
const Question = "Which copyright notice must be kept in copies of the software?"

const (
	asker                 = "marta.lindqvist" // may write to the organisation's space
	other                 = "oskar.nilsen"    // answers for the coordinator, and is cleared for nothing
	label                 = "finance"         // of one document
	secret                = "library/packages/libxpm4.txt"
	space                 = "organisation"
	desk                  = "archive-desk" // takes the two branches that fail
	count                 = 20             // branches
	illegible, unanswered = 6, 12
)

// House is a running installation with the sample organisation.
type House struct {
	As func(principal string) (*client.Client, error) // speaks to it as somebody
}

// Result is what was shown.
type Result struct {
	First    client.Research `json:"first"`   // in which two branches failed
	Retried  client.Research `json:"retried"` // in which only these were taken again
	Others   client.Research `json:"others"`  // the second, as the other person gets it
	Document int             `json:"documents"`
	Checks   []string        `json:"checks"` // what was looked at and found as it must be
}

// show is the demonstration under way.
type show struct {
	ask.Witness
	asker *client.Client
	other *client.Client
	names []string // of the documents
}

// Run remembers the library, has the question looked into, takes again what
// failed, and opens every citation. The error says what was not as it must be.
func Run(ctx context.Context, house House, out io.Writer) (result Result, err error) {
	s := &show{Witness: ask.Witness{Out: out}}
	if s.asker, err = house.As(asker); err != nil {
		return result, err
	}
	if s.other, err = house.As(other); err != nil {
		return result, err
	}
	if err := s.remember(ctx); err != nil {
		return result, err
	}
	result.Document = len(s.names)
	if result.First, err = s.first(ctx); err != nil {
		return result, err
	}
	if result.Retried, err = s.again(ctx, result.First); err != nil {
		return result, err
	}
	if result.Others, err = s.others(ctx, result.Retried); err != nil {
		return result, err
	}
	result.Checks = s.Checked
	return result, s.Conclude()
}

// remember has the documents of the library remembered for everybody, one of
// them for those alone who are cleared for it.
func (s *show) remember(ctx context.Context) error {
	passages := 0
	err := fs.WalkDir(library.Files, ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(library.Files, at)
		if err != nil {
			return err
		}
		document := client.Document{Name: "library/" + at, Content: content, Draft: client.MemoryDraft{Space: space}}
		if document.Name == secret {
			document.Draft.Labels = []string{label}
		}
		done, err := s.asker.RememberDocument(ctx, document)
		s.names, passages = append(s.names, done.Ref), passages+done.Passages
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(s.Check(len(s.names) >= 60, "%d documents with %d passages", len(s.names), passages),
		s.Say("%d documents with %d passages are remembered; %s bears the label %s", len(s.names), passages, secret, label))
}

// plan divides the documents among the branches, and gives two of these to who
// cannot do them: one cannot read its scan, the other waits for an answer.
func (s *show) plan() []client.PlannedBranch {
	branches := make([]client.PlannedBranch, count)
	for n := range branches {
		inputs := s.names[n*len(s.names)/count : (n+1)*len(s.names)/count]
		branches[n] = client.PlannedBranch{Title: fmt.Sprintf("shelf %d", n+1), Inputs: inputs}
	}
	branches[illegible].Title += " (scan)"
	branches[illegible].Agent, branches[unanswered].Agent = desk, desk
	return branches
}

// first has the question looked into; two branches fail.
func (s *show) first(ctx context.Context) (client.Research, error) {
	begun, err := s.asker.StartResearch(ctx, client.StartResearch{Coordinator: research.Coordinator, Question: Question,
		Branches: s.plan(), Agent: research.Reader, Consolidator: research.Consolidator})
	if err != nil {
		return begun, err
	}
	ended, err := s.follow(ctx, begun)
	if err != nil {
		return ended, err
	}
	if err := s.missing(ended); err != nil {
		return ended, err
	}
	missing := ended.Missing()
	whole := len(missing) == 2 && ended.Branches[illegible].Status == "FAILED" && ended.Branches[unanswered].Status == "FAILED"
	return ended, errors.Join(
		s.Check(ended.Status == "PARTIAL" && ended.Done == count-2 && whole, "%d branches brought a result, %q and %q are missing, and the research is PARTIAL", count-2,
			ended.Branches[illegible].Title, ended.Branches[unanswered].Title),
		s.aligned(ended))
}

// aligned checks that what each branch found is from its own documents.
func (s *show) aligned(r client.Research) error {
	planned := s.plan()
	for n, branch := range r.Branches {
		if branch.Title != planned[n].Title || !slices.Equal(branch.Inputs, planned[n].Inputs) {
			return fmt.Errorf("not so: branch %d stands in its place", n+1)
		}
	}
	return s.Check(true, "results stand in the order of their inputs")
}

// follow shows how a research moves on until it has ended.
func (s *show) follow(ctx context.Context, begun client.Research) (client.Research, error) {
	p := &research.Progress{Out: s.Out}
	if err := errors.Join(s.Say(""), p.Begin(begun)); err != nil {
		return begun, err
	}
	last := begun
	err := s.asker.ResearchProgress(ctx, begun.ID, func(r client.Research) (bool, error) {
		last = r
		return r.Code == "" || r.EndedAt != nil, p.Tell(r)
	})
	if err == nil && last.EndedAt == nil {
		err = fmt.Errorf("the research does not go on by itself: %s", last.Code)
	}
	if err != nil {
		return last, err
	}
	return s.asker.Research(ctx, last.ID)
}

func (s *show) missing(r client.Research) error {
	for _, branch := range r.Branches {
		if branch.Status == "FAILED" {
			if err := s.Say("missing: %s (%s)", branch.Title, branch.Code); err != nil {
				return err
			}
		}
	}
	return nil
}

// again takes the two branches again, by an agent that can do them.
func (s *show) again(ctx context.Context, first client.Research) (client.Research, error) {
	begun, err := s.asker.RetryBranches(ctx, first.ID, research.Reader)
	if err != nil {
		return begun, err
	}
	ended, err := s.follow(ctx, begun)
	if err != nil {
		return ended, err
	}
	kept, taken := 0, 0
	for n, branch := range ended.Branches {
		switch {
		case branch.Status == "KEPT" && branch.Run == first.Branches[n].Run:
			kept++
		case branch.Status == "DONE" && branch.Run != first.Branches[n].Run:
			taken++
		}
	}
	if err := s.Check(ended.Status == "COMPLETED" && kept == count-2 && taken == 2, "only the two were taken again, and %d results are kept", kept); err != nil {
		return ended, err
	}
	if err := errors.Join(s.Say("\nwhat was found, as %s gets it:", asker), research.Tell(s.Out, firsts(ended))); err != nil {
		return ended, err
	}
	return ended, s.opens(ctx, ended)
}

// shown is how many findings are printed.
const shown = 5

// firsts is a research with as many findings as are printed.
func firsts(r client.Research) client.Research {
	r.Findings = r.Findings[:min(shown, len(r.Findings))]
	return r
}

// opens opens every citation and looks whether its words stand where it says.
func (s *show) opens(ctx context.Context, r client.Research) error {
	citations := 0
	for _, finding := range r.Findings {
		if len(finding.Citations) == 0 {
			return fmt.Errorf("not so: finding %s cites something", client.ShortID(finding.ID))
		}
		for _, citation := range finding.Citations {
			if err := s.stands(ctx, citation); err != nil {
				return err
			}
			citations++
		}
	}
	return errors.Join(s.Say("\n… %d findings with %d citations in all", len(r.Findings), citations),
		s.Check(citations >= count, "each of %d citations of %d findings opens at its words", citations, len(r.Findings)))
}

func (s *show) stands(ctx context.Context, citation client.Citation) error {
	item, err := s.asker.MemoryItem(ctx, citation.Item)
	if err != nil {
		return err
	}
	if citation.Start == nil || citation.End == nil || words(item.Text[*citation.Start:*citation.End]) != words(citation.Quote) {
		return fmt.Errorf("not so: %q stands in %s", citation.Quote, citation.Passage)
	}
	return nil
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// others reads the same research as somebody who may not see one document.
func (s *show) others(ctx context.Context, whole client.Research) (client.Research, error) {
	got, err := s.other.Research(ctx, whole.ID)
	if err != nil {
		return got, err
	}
	seen := map[string]bool{}
	for _, finding := range got.Findings {
		seen[finding.ID] = true
	}
	rests, hidden := 0, 0
	for _, finding := range whole.Findings {
		if slices.Contains(finding.Labels, label) {
			hidden++
		}
		if slices.ContainsFunc(finding.Citations, func(c client.Citation) bool { return strings.HasPrefix(c.Passage, secret) }) {
			rests++
			if _, err := s.other.MemoryItem(ctx, finding.ID); seen[finding.ID] || !client.IsCode(err, "NOT_FOUND") {
				return got, errors.Join(fmt.Errorf("not so: %s gets nothing that rests on %s", other, secret), err)
			}
		}
	}
	for _, finding := range got.Findings {
		if slices.Contains(finding.Labels, label) || strings.Contains(finding.Text, secret) {
			return got, fmt.Errorf("not so: %s gets nothing that bears the label %s", other, label)
		}
	}
	return got, errors.Join(
		s.Say("\n%s, who is not cleared for %s, gets %d of these %d findings:\n%d rest on %s, and %d others may repeat some of it; for %s they do not exist",
			other, label, len(got.Findings), len(whole.Findings), rests, secret, hidden-rests, other),
		s.Check(rests > 0 && len(got.Findings) == len(whole.Findings)-hidden, "who may not see one document gets nothing that rests on it, and everything else"))
}
