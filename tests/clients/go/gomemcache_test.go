// Package clients runs gomemcache against the program under test.
package clients

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func client(nodes ...*node) *memcache.Client {
	addresses := make([]string, len(nodes))
	for i, each := range nodes {
		addresses[i] = each.address
	}
	made := memcache.New(addresses...)
	made.Timeout = 20 * time.Second
	made.MaxIdleConns = 32
	return made
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, wanted, err error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Fatalf("%v, wanted %v", err, wanted)
	}
}

func holds(t *testing.T, c *memcache.Client, key string, value []byte) {
	t.Helper()
	item, err := c.Get(key)
	must(t, err)
	if !bytes.Equal(item.Value, value) {
		t.Fatalf("%q holds %.40q, wanted %.40q", key, item.Value, value)
	}
}

func TestStorage(t *testing.T) {
	onEachFace(t, func(t *testing.T, face string) {
		c := client(start(t, face))
		must(t, c.Ping())
		_, err := c.Get("k")
		wants(t, memcache.ErrCacheMiss, err)
		must(t, c.Set(&memcache.Item{Key: "k", Value: []byte("1"), Flags: 42}))
		item, err := c.Get("k")
		must(t, err)
		if item.Flags != 42 {
			t.Fatalf("flags %d", item.Flags)
		}
		wants(t, memcache.ErrNotStored, c.Add(&memcache.Item{Key: "k", Value: []byte("2")}))
		wants(t, memcache.ErrNotStored, c.Replace(&memcache.Item{Key: "j", Value: []byte("2")}))
		must(t, c.Append(&memcache.Item{Key: "k", Value: []byte("2")}))
		must(t, c.Prepend(&memcache.Item{Key: "k", Value: []byte("0")}))
		holds(t, c, "k", []byte("012"))
		must(t, c.Delete("k"))
		wants(t, memcache.ErrCacheMiss, c.Delete("k"))
	})
}

func TestLargeValues(t *testing.T) {
	onEachFace(t, func(t *testing.T, face string) {
		c := client(start(t, face))
		for _, size := range []int{0, 1, 1000, 100_000, 524_288, 1<<20 - 1024} {
			value := bytes.Repeat([]byte{'\r', '\n', 'x'}, size/3+1)[:size]
			must(t, c.Set(&memcache.Item{Key: "k", Value: value}))
			holds(t, c, "k", value)
		}
		if err := c.Set(&memcache.Item{Key: "k", Value: make([]byte, 1<<20+1)}); err == nil {
			t.Fatal("more than the limit was stored")
		}
		must(t, c.Set(&memcache.Item{Key: "k", Value: []byte("after")}))
		holds(t, c, "k", []byte("after"))
	})
}

func TestCompareAndSwapHasOneWinner(t *testing.T) {
	onEachFace(t, func(t *testing.T, face string) {
		c := client(start(t, face))
		must(t, c.Set(&memcache.Item{Key: "n", Value: []byte("0")}))
		const workers, turns = 8, 200
		var all sync.WaitGroup
		var lost atomic.Int64
		for range [workers]int{} {
			all.Add(1)
			go func() {
				defer all.Done()
				for won := 0; won < turns; {
					item, err := c.Get("n")
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := strconv.Atoi(string(item.Value))
					item.Value = []byte(strconv.Itoa(n + 1))
					switch err := c.CompareAndSwap(item); {
					case err == nil:
						won++
					case errors.Is(err, memcache.ErrCASConflict):
						lost.Add(1)
					default:
						t.Error(err)
						return
					}
				}
			}()
		}
		all.Wait()
		holds(t, c, "n", []byte(strconv.Itoa(workers*turns)))
		t.Logf("%d lost", lost.Load())
	})
}

func TestIncrementsAreNotLost(t *testing.T) {
	onEachFace(t, func(t *testing.T, face string) {
		c := client(start(t, face))
		_, err := c.Increment("n", 1)
		wants(t, memcache.ErrCacheMiss, err)
		must(t, c.Set(&memcache.Item{Key: "n", Value: []byte("0")}))
		const workers, turns = 8, 500
		var all sync.WaitGroup
		for range [workers]int{} {
			all.Add(1)
			go func() {
				defer all.Done()
				for range [turns]int{} {
					if _, err := c.Increment("n", 3); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
		n, err := c.Decrement("n", 1)
		must(t, err)
		if n != 3*workers*turns-1 {
			t.Fatalf("%d", n)
		}
	})
}

func TestExpiryTouchAndFlush(t *testing.T) {
	onEachFace(t, func(t *testing.T, face string) {
		c := client(start(t, face))
		must(t, c.Set(&memcache.Item{Key: "brief", Value: []byte("x"), Expiration: 1}))
		must(t, c.Set(&memcache.Item{Key: "touched", Value: []byte("x"), Expiration: 1}))
		must(t, c.Touch("touched", 100))
		wants(t, memcache.ErrCacheMiss, c.Touch("nothing", 100))
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if _, err := c.Get("brief"); errors.Is(err, memcache.ErrCacheMiss) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it never expired")
			}
		}
		holds(t, c, "touched", []byte("x"))
		must(t, c.FlushAll())
		_, err := c.Get("touched")
		wants(t, memcache.ErrCacheMiss, err)
	})
}

func TestManyKeysOverTwoNodes(t *testing.T) {
	onEachFace(t, func(t *testing.T, face string) {
		first, second := start(t, face), start(t, face)
		c := client(first, second)
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = fmt.Sprintf("key-%d", i)
			must(t, c.Set(&memcache.Item{Key: keys[i], Value: []byte(keys[i])}))
		}
		found, err := c.GetMulti(keys)
		must(t, err)
		if len(found) != len(keys) {
			t.Fatalf("%d of %d", len(found), len(keys))
		}
		alone := client(first)
		before, err := alone.GetMulti(keys)
		must(t, err)
		if len(before) < 300 || len(before) > 700 {
			t.Fatalf("%d of %d on one node", len(before), len(keys))
		}
		second.kill()
		after := 0
		for key := range before {
			holds(t, c, key, []byte(key))
			after++
		}
		if after != len(before) {
			t.Fatalf("%d of %d survived the other node's end", after, len(before))
		}
	})
}
