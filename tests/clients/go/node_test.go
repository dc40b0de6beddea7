package clients

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// node is one running program under test.
type node struct {
	address string
	process *exec.Cmd
}

// faces are the ways in which the program under test serves the protocol.
func faces() []string {
	if os.Getenv("NODE_FACE") == "peer" {
		return []string{"peer"}
	}
	return []string{"memcached", "serve"}
}

// onEachFace runs a test on a node of its own for each face.
func onEachFace(t *testing.T, test func(t *testing.T, face string)) {
	for _, face := range faces() {
		t.Run(face, func(t *testing.T) { test(t, face) })
	}
}

// start starts a node, waits until it answers, and ends it with the test.
func start(t *testing.T, face string) *node {
	t.Helper()
	program, err := filepath.Abs("../start-node")
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	process := exec.Command(program, face, strconv.Itoa(port))
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	started := &node{net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), process}
	t.Cleanup(started.kill)
	started.await(t)
	return started
}

func freePort(t *testing.T) int {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	return probe.Addr().(*net.TCPAddr).Port
}

func (n *node) await(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		connection, err := net.Dial("tcp", n.address)
		if err == nil {
			connection.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the node does not answer")
}

func (n *node) kill() {
	n.process.Process.Kill()
	n.process.Wait()
}
