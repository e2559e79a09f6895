package office

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/listen"
)

// Handler serves the office over streamable HTTP to who holds the token.
func (o *Office) Handler(token string) http.Handler {
	server := o.Server()
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if token == "" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "unauthorised", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// Command returns "gantry sample-office", which serves an Office until its
// context ends: over its own input and output, or over HTTP.
func Command() *cobra.Command {
	var address, path, own, tokenFile string
	command := &cobra.Command{
		Use:   "sample-office",
		Short: "Run a small outside office to try effects against: mail, a calendar and files",
		Long: "Runs an office with a mail box, a calendar and files in a database of its own, as something outside that agents can act on over\n" +
			"the Model Context Protocol: over standard input and output, or over HTTP where --listen says so. It sends no mail to anybody: what\n" +
			"it says it has sent is the truth about effects.",
		Example: "  gantry sample-office --db office.db --listen 127.0.0.1:7412 --token-file office-token.txt",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			o, err := Open(ctx, Config{Path: path, Own: own, Mail: SampleMail(), Files: SampleFiles()})
			if err != nil {
				return err
			}
			if address == "" {
				return errors.Join(o.Server().Run(ctx, &mcp.StdioTransport{}), o.Close())
			}
			token, err := os.ReadFile(tokenFile)
			if err != nil {
				return errors.Join(fmt.Errorf("office: token file: %w", err), o.Close())
			}
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			if err != nil {
				return errors.Join(fmt.Errorf("office: listen: %w", err), o.Close())
			}
			cmd.Printf("office listens on http://%s\n", listener.Addr())
			return errors.Join(listen.Serve(ctx, listener, o.Handler(strings.TrimSpace(string(token)))), o.Close())
		},
	}
	command.Flags().StringVar(&address, "listen", "", "address to listen on; empty: standard input and output")
	command.Flags().StringVar(&path, "db", "office.db", "file of the office's own SQLite database")
	command.Flags().StringVar(&own, "address", "office@northwind.example", "address of the mail box")
	command.Flags().StringVar(&tokenFile, "token-file", "", "file of the token that clients show over HTTP")
	return command
}
