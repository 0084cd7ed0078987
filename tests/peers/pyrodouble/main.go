// SPDX-License-Identifier: Apache-2.0
// pyrodouble: NOT Pyroscope. A strict double built on Pyroscope's own published API stubs (push.v1, querier.v1),
// connect-go and google/pprof: decodes pushes with the official code, merges exactly, answers merged queries.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	"google.golang.org/protobuf/proto"
)

type series struct {
	labels map[string]string
	prof   *profile.Profile
	at     time.Time
}

type server struct {
	querierv1connect.UnimplementedQuerierServiceHandler
	mu  sync.Mutex
	all []series
}

func bad(f string, a ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(f, a...))
}

func (s *server) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	if len(r.Msg.Series) == 0 {
		return nil, bad("empty push")
	}
	for _, se := range r.Msg.Series {
		l := map[string]string{}
		for _, p := range se.Labels {
			if _, dup := l[p.Name]; dup {
				return nil, bad("duplicate label %s", p.Name)
			}
			l[p.Name] = p.Value
		}
		if l["__name__"] == "" {
			return nil, bad("invalid metric name")
		}
		if len(l) > 30 {
			return nil, bad("max_label_names_per_series")
		}
		if l["service_name"] == "" {
			l["service_name"] = "unknown_service"
		}
		for _, sm := range se.Samples {
			raw := sm.RawProfile
			if len(raw) > 2 && raw[0] == 0x1f && raw[1] == 0x8b {
				z, err := gzip.NewReader(bytes.NewReader(raw))
				if err != nil {
					return nil, bad("gzip: %v", err)
				}
				if raw, err = io.ReadAll(z); err != nil {
					return nil, bad("gzip: %v", err)
				}
			}
			if len(raw) > 4<<20 {
				return nil, bad("profile_size_limit")
			}
			var g googlev1.Profile
			if err := proto.Unmarshal(raw, &g); err != nil {
				return nil, bad("malformed_profile: %v", err)
			}
			if len(g.Sample) > 16000 {
				return nil, bad("samples_limit")
			}
			for _, t := range g.StringTable {
				if !utf8.ValidString(t) {
					return nil, bad("malformed_profile: utf8")
				}
			}
			for _, t := range g.SampleType {
				if strings.Contains(g.StringTable[t.Type], "-") {
					return nil, bad("malformed_profile: hyphen in sample type")
				}
			}
			p, err := profile.ParseData(raw)
			if err != nil {
				return nil, bad("malformed_profile: %v", err)
			}
			at := time.Unix(0, p.TimeNanos)
			if d := time.Since(at); p.TimeNanos != 0 && (d > time.Hour || d < -10*time.Minute) {
				return nil, bad("not_in_ingestion_window")
			}
			s.mu.Lock()
			s.all = append(s.all, series{l, p, at})
			s.mu.Unlock()
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

var sel = regexp.MustCompile(`([\w.]+)\s*(=~|=)\s*"([^"]*)"`)

func (s *server) merged(id, selector string, a, b int64) (*profile.Profile, int, error) {
	t := strings.Split(id, ":") // name:type:unit:ptype:punit
	if len(t) < 5 {
		return nil, 0, bad("profile type id")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var in []*profile.Profile
next:
	for _, e := range s.all {
		if e.labels["__name__"] != t[0] || e.at.UnixMilli() < a || e.at.UnixMilli() > b {
			continue
		}
		for _, m := range sel.FindAllStringSubmatch(selector, -1) {
			ok := e.labels[m[1]] == m[3]
			if m[2] == "=~" {
				ok, _ = regexp.MatchString("^(?:"+m[3]+")$", e.labels[m[1]])
			}
			if !ok {
				continue next
			}
		}
		in = append(in, e.prof)
	}
	if len(in) == 0 {
		return nil, 0, nil
	}
	p, err := profile.Merge(in)
	if err != nil {
		return nil, 0, err
	}
	for i, st := range p.SampleType {
		if st.Type == t[1] && st.Unit == t[2] {
			return p, i, nil
		}
	}
	return nil, 0, errors.New("no such sample type")
}

type node struct {
	self, total int64
	kids        map[string]*node
	order       []string
}

func (s *server) SelectMergeStacktraces(_ context.Context, r *connect.Request[querierv1.SelectMergeStacktracesRequest]) (*connect.Response[querierv1.SelectMergeStacktracesResponse], error) {
	p, vi, err := s.merged(r.Msg.ProfileTypeID, r.Msg.LabelSelector, r.Msg.Start, r.Msg.End)
	if err != nil {
		return nil, err
	}
	fg := &querierv1.FlameGraph{Names: []string{"total"}}
	root := &node{kids: map[string]*node{}}
	if p != nil {
		for _, sm := range p.Sample {
			n := root
			n.total += sm.Value[vi]
			for i := len(sm.Location) - 1; i >= 0; i-- {
				for j := len(sm.Location[i].Line) - 1; j >= 0; j-- {
					name := sm.Location[i].Line[j].Function.Name
					k := n.kids[name]
					if k == nil {
						k = &node{kids: map[string]*node{}}
						n.kids[name] = k
						n.order = append(n.order, name)
					}
					k.total += sm.Value[vi]
					n = k
				}
			}
			n.self += sm.Value[vi]
			fg.MaxSelf = max(fg.MaxSelf, n.self)
		}
	}
	fg.Total = root.total
	idx := map[string]int64{"total": 0}
	var walk func(n *node, name string, depth int, x int64)
	end := map[int]int64{}
	walk = func(n *node, name string, depth int, x int64) {
		for len(fg.Levels) <= depth {
			fg.Levels = append(fg.Levels, &querierv1.Level{})
		}
		i, ok := idx[name]
		if !ok {
			i = int64(len(fg.Names))
			idx[name] = i
			fg.Names = append(fg.Names, name)
		}
		fg.Levels[depth].Values = append(fg.Levels[depth].Values, x-end[depth], n.total, n.self, i)
		end[depth] = x + n.total
		x += n.self
		for _, k := range n.order {
			walk(n.kids[k], k, depth+1, x)
			x += n.kids[k].total
		}
	}
	walk(root, "total", 0, 0)
	return connect.NewResponse(&querierv1.SelectMergeStacktracesResponse{Flamegraph: fg}), nil
}

func (s *server) SelectMergeProfile(_ context.Context, r *connect.Request[querierv1.SelectMergeProfileRequest]) (*connect.Response[googlev1.Profile], error) {
	p, _, err := s.merged(r.Msg.ProfileTypeID, r.Msg.LabelSelector, r.Msg.Start, r.Msg.End)
	if err != nil {
		return nil, err
	}
	var g googlev1.Profile
	if p != nil {
		var buf bytes.Buffer
		if err := p.WriteUncompressed(&buf); err != nil {
			return nil, err
		}
		if err := proto.Unmarshal(buf.Bytes(), &g); err != nil {
			return nil, err
		}
	}
	return connect.NewResponse(&g), nil
}

func main() {
	addr := flag.String("addr", "127.0.0.1:14040", "listen address")
	flag.Parse()
	s := &server{}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(s))
	mux.Handle(querierv1connect.NewQuerierServiceHandler(s))
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") })
	log.Fatal(http.ListenAndServe(*addr, mux))
}
