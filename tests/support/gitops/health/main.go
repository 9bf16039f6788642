// Computes the health of objects as GitOps tools do, with their own libraries: kstatus (kpt, Helm 4, Flux), the CEL
// expressions of a Flux Kustomization, and a health check of Argo CD.
//
// usage: health CHECK.lua EXPRESSIONS.json < OBJECTS
//
// EXPRESSIONS.json is an item of `spec.healthCheckExprs`; OBJECTS are JSON documents. A line is printed for each:
// {"kstatus": {"status": ..., "message": ...}, "flux": {...}, "argocd": {...}}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type answer struct {
	Kstatus health `json:"kstatus"`
	Flux    health `json:"flux"`
	ArgoCD  health `json:"argocd"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return errors.New("usage: health CHECK.lua EXPRESSIONS.json < OBJECTS")
	}
	script, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	flux, err := evaluator(os.Args[2])
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	encoder := json.NewEncoder(os.Stdout)
	for {
		var text json.RawMessage
		if err := decoder.Decode(&text); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		all, err := compute(string(script), flux, text)
		if err != nil {
			return err
		}
		if err := encoder.Encode(all); err != nil {
			return err
		}
	}
}

func evaluator(path string) (*cel.StatusEvaluator, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	expressions := kustomize.HealthCheckExpressions{}
	if err := json.Unmarshal(text, &expressions); err != nil {
		return nil, err
	}
	return cel.NewStatusEvaluator(&expressions)
}

func compute(script string, flux *cel.StatusEvaluator, text []byte) (answer, error) {
	object := unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return answer{}, err
	}
	generic, err := status.Compute(&object)
	if err != nil {
		return answer{}, err
	}
	evaluated, err := flux.Evaluate(context.Background(), &object)
	if err != nil {
		return answer{}, err
	}
	checked, err := argocd(script, text)
	if err != nil {
		return answer{}, err
	}
	return answer{
		Kstatus: health{generic.Status.String(), generic.Message},
		Flux:    health{evaluated.Status.String(), evaluated.Message},
		ArgoCD:  checked,
	}, nil
}

// argocd runs a health check with the libraries and the time that Argo CD gives it (argo-cd, util/lua).
func argocd(script string, text []byte) (health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		call := lua.P{Fn: state.NewFunction(open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return health{}, err
		}
	}
	limited, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(limited)
	value, err := luajson.Decode(state, text)
	if err != nil {
		return health{}, err
	}
	state.SetGlobal("obj", value)
	if err := state.DoString(script); err != nil {
		return health{}, err
	}
	returned, err := luajson.Encode(state.Get(-1))
	if err != nil {
		return health{}, err
	}
	checked := health{}
	if err := json.Unmarshal(returned, &checked); err != nil {
		return health{}, err
	}
	switch checked.Status {
	case "Unknown", "Progressing", "Suspended", "Healthy", "Degraded", "Missing":
		return checked, nil
	}
	return health{}, fmt.Errorf("%q is not a health status of Argo CD", checked.Status)
}
