//go:build unix

package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// aside are the kinds of event that no way of the crash tests has, and where
// they are shown instead.
var aside = map[run.EventKind]string{
	run.KindQuestionVoided: "like a voided approval, which has its crashes",
	run.KindLateOutcome:    "needs a worker that outlives its lease: TestFault_B3_AnOutcomeThatComesAfterItsSuccessorIsKeptAsLate",
	run.KindLimitReached:   "waits for a person, as an approval does",
	run.KindLimitRaised:    "a person's word, as a decision is",
	run.KindParked:         "TestFault_A11_AnAlteredRecordParksItsRun",
	run.KindResumed:        "a person's word, as a decision is",
	run.KindAccessVoided:   "like a voided approval, which has its crashes",
	run.KindReviewDeclined: "like a review that begins, less its child",
}

// covers fails where something can be written that no crash was tried at: a
// method of the store, or a kind of event.
func covers(t *testing.T, commits []string) {
	t.Helper()
	kinds, methods := map[run.EventKind]bool{}, map[string]bool{}
	for _, commit := range commits {
		method, rest, _ := strings.Cut(commit, " ")
		methods[method] = true
		if method != "Append" {
			continue
		}
		for kind := range strings.SplitSeq(rest, "+") {
			kinds[run.EventKind(kind)] = true
		}
	}
	for kind := range eventKinds {
		_, elsewhere := aside[kind]
		require.NotEqual(t, elsewhere, kinds[kind], "%s: has its crashes, or says why not", kind)
	}
	delete(methods, "Open")                                                                                // a function, not a method
	writing := slices.DeleteFunc(writingMethods(t), func(name string) bool { return name == "Databases" }) // writes nothing; what memory writes has its crashes there
	require.Equal(t, writing, slices.Sorted(maps.Keys(methods)), "the store's methods that write, and those that a process was killed at")
}

// writingMethods are the exported methods of the journal's store that write, as
// its source has them: what reaches the connection for writing or the writer's
// queue, over however many steps.
func writingMethods(t *testing.T) []string {
	t.Helper()
	const folder = "../../../orchestrator/journal"
	sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	uses := map[string][]string{} // by method of the store: its fields and methods
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		require.NoError(t, err)
		for _, declared := range file.Decls {
			f, isFunction := declared.(*ast.FuncDecl)
			if !isFunction || f.Recv == nil || len(f.Recv.List[0].Names) == 0 {
				continue
			}
			if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); !ok || star.X.(*ast.Ident).Name != "Store" {
				continue
			}
			uses[f.Name.Name] = used(f.Body, f.Recv.List[0].Names[0].Name)
		}
	}
	var writing []string
	for name := range uses {
		if ast.IsExported(name) && name != "Close" && reaches(uses, name, map[string]bool{}) {
			writing = append(writing, name)
		}
	}
	slices.Sort(writing)
	return writing
}

// used are what a body selects of its receiver.
func used(body ast.Node, receiver string) (names []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == receiver {
				names = append(names, selector.Sel.Name)
			}
		}
		return true
	})
	return names
}

// reaches reports whether a method comes to the field "write", or to the queue
// of the writer.
func reaches(uses map[string][]string, name string, met map[string]bool) bool {
	if met[name] {
		return false
	}
	met[name] = true
	return slices.ContainsFunc(uses[name], func(next string) bool { return next == "write" || next == "queue" || reaches(uses, next, met) })
}
