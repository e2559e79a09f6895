// Package gantry is the root of the Gantry module: a platform that runs AI
// agents for an organisation and stays in charge of what they do. The binary
// is in cmd/gantry; ARCHITECTURE.md shows how the packages stand together.
package gantry
