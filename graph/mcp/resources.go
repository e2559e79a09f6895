package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/operation"
)

// What resources are named by.
const (
	runsURI   = "gantry://runs/"
	agentsURI = "gantry://agents/"
)

// recent is how many runs are listed as resources; list_runs has the others.
const recent = 20

func (d desk) addResources(server *sdk.Server) {
	server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: runsURI + "{id}", Name: "run", Title: "A run", MIMEType: "application/json",
		Description: "A run as it is now, as the caller may see it."}, d.readResource)
	server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: agentsURI + "{name}", Name: "agent", Title: "An agent", MIMEType: "application/json",
		Description: "An agent that the caller may know of."}, d.readResource)
	server.AddReceivingMiddleware(d.listResources)
}

// listResources lists for each caller what that caller may see: a list of the
// server's own would be one for all.
func (d desk) listResources(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
		got, err := next(ctx, method, request)
		listed, is := got.(*sdk.ListResourcesResult)
		if asked, first := request.GetParams().(*sdk.ListResourcesParams); !is || err != nil || first && asked != nil && asked.Cursor != "" {
			return got, err
		}
		agents, err := d.operations.Agents(ctx)
		if err != nil {
			return nil, worded(err)
		}
		for _, agent := range agents {
			listed.Resources = append(listed.Resources, &sdk.Resource{URI: agentsURI + url.PathEscape(agent.Name), Name: agent.Name, Description: agent.Description, MIMEType: "application/json"})
		}
		runs, _, err := d.operations.Runs(ctx, "", "", "", recent)
		if err != nil {
			return nil, worded(err)
		}
		for _, run := range runs {
			listed.Resources = append(listed.Resources, &sdk.Resource{URI: runsURI + run.ID, Name: run.Agent + " " + run.Status, MIMEType: "application/json"})
		}
		return listed, nil
	}
}

// readResource reads a run or an agent. What the caller may not know of is
// answered as what does not exist.
func (d desk) readResource(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	var got any
	var err error
	if id, is := strings.CutPrefix(request.Params.URI, runsURI); is {
		got, err = d.operations.Run(ctx, id)
	} else {
		name, _ := url.PathUnescape(strings.TrimPrefix(request.Params.URI, agentsURI))
		got, err = d.operations.Agent(ctx, name)
	}
	var fault *edge.Fault
	if errors.As(err, &fault) && fault.Code == operation.Absent.Code {
		return nil, sdk.ResourceNotFoundError(request.Params.URI)
	}
	if err != nil {
		return nil, worded(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		return nil, worded(err)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: request.Params.URI, MIMEType: "application/json", Text: string(text)}}}, nil
}
