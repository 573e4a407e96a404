// Command driver is a RocketMQ client driven by JSON lines: one request per line on stdin, one reply per request and
// one event per consumed message on stdout. The protocol is described in driver.py; the Java driver speaks it too.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
)

// fields is a reply or an event on its way out.
type fields map[string]any

type op func(*driver, *request) (fields, error)

// errUnsupported: the Go client has no such thing; tests tell it from a failure.
var errUnsupported = errors.New("unsupported")

var ops = map[string]op{
	"ping":           func(*driver, *request) (fields, error) { return fields{"pid": os.Getpid()}, nil },
	"reset":          (*driver).reset,
	"producer_start": (*driver).producerStart,
	"producer_stop":  (*driver).producerStop,
	"send":           (*driver).send,
	"send_many":      (*driver).sendMany,
	"send_batch":     (*driver).sendBatch,
	"request":        (*driver).request,
	"consumer_start": (*driver).consumerStart,
	"consumer_stop":  (*driver).consumerStop,
	"queues":         (*driver).queues,
	"create_topic":   (*driver).createTopic,
}

type driver struct {
	outLock sync.Mutex
	out     *bufio.Writer

	lock      sync.Mutex
	producers map[string]rocketmq.Producer
	consumers map[string]rocketmq.PushConsumer

	// instances distinguishes clients of this process; the process id in front of it distinguishes processes.
	instances atomic.Int64
}

func main() {
	d := &driver{
		out:       bufio.NewWriter(os.Stdout),
		producers: map[string]rocketmq.Producer{},
		consumers: map[string]rocketmq.PushConsumer{},
	}
	// Whatever a library prints goes to stderr, which the test keeps as the log.
	os.Stdout = os.Stderr
	d.serve(bufio.NewReader(os.Stdin))
}

// serve runs each request on a goroutine of its own, so that a slow one keeps nothing else waiting.
func (d *driver) serve(in *bufio.Reader) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // the test has gone
		}
		r := &request{}
		if err := json.Unmarshal(line, r); err != nil {
			fmt.Fprintln(os.Stderr, "bad request:", err)
			d.emit(failure(r, err))
			continue
		}
		if r.Op == "exit" {
			d.reset(r)
			d.emit(fields{"id": r.ID, "ok": true})
			return
		}
		go func() { d.emit(d.answer(r)) }()
	}
}

func (d *driver) answer(r *request) fields {
	run, known := ops[r.Op]
	if !known {
		return failure(r, errUnsupported)
	}
	reply, err := run(d, r)
	if err != nil {
		return failure(r, err)
	}
	reply["id"], reply["ok"] = r.ID, true
	return reply
}

func (d *driver) emit(line fields) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	d.outLock.Lock()
	defer d.outLock.Unlock()
	d.out.Write(text)
	d.out.WriteByte('\n')
	d.out.Flush()
}

func failure(r *request, err error) fields {
	return fields{"id": r.ID, "ok": false, "error": err.Error(), "code": responseCode(err)}
}

// The client gives a broker's code as part of a text only, in one of two shapes.
var codeInText = regexp.MustCompile(`CODE: (\d+)`)

func responseCode(err error) any {
	match := codeInText.FindStringSubmatch(err.Error())
	if match == nil {
		return nil
	}
	code, _ := strconv.Atoi(match[1])
	return code
}

// reset stops everything, so that one process can serve test after test.
func (d *driver) reset(*request) (fields, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	for name, producer := range d.producers {
		producer.Shutdown()
		delete(d.producers, name)
	}
	for name, consumer := range d.consumers {
		consumer.Shutdown()
		delete(d.consumers, name)
	}
	return fields{}, nil
}

// instanceName keeps clients apart: with equal names they would share one connection and one client id.
func (d *driver) instanceName(r *request) string {
	if r.InstanceName != "" {
		return r.InstanceName
	}
	return fmt.Sprintf("%s#%d#%d", r.Name, os.Getpid(), d.instances.Add(1))
}
