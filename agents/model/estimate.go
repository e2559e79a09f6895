package model

// BytesPerToken is the rule of thumb where nobody counts the tokens.
const BytesPerToken = 4

// EstimateTokens returns the tokens of so many bytes of text, rounded up.
func EstimateTokens(size int64) int64 { return (max(size, 0) + BytesPerToken - 1) / BytesPerToken }

// PromptBytes returns the size of everything in a request that a provider
// charges for, but for images and files: those are not counted by bytes.
func PromptBytes(request Request) int64 {
	size := 0
	for _, message := range request.Messages {
		size += len(message.Role) + len(message.Text) + len(message.CallID) + len(message.Thread)
		for _, call := range message.Calls {
			size += len(call.ID) + len(call.Name) + len(call.Arguments)
		}
	}
	for _, spec := range request.Tools {
		size += len(spec.Name) + len(spec.Description) + len(spec.Schema)
	}
	size += len(request.Output)
	return int64(size)
}

// Estimate returns the usage of an answer whose provider reports none.
func Estimate(request Request, answer Answer) Usage {
	output := len(answer.Text)
	for _, call := range answer.Calls {
		output += len(call.Name) + len(call.Arguments)
	}
	return Usage{
		Input:     EstimateTokens(PromptBytes(request)),
		Output:    EstimateTokens(int64(output)),
		Reasoning: EstimateTokens(int64(len(answer.Reasoning))),
		Estimated: true,
	}
}
