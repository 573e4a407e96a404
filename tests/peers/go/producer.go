package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"sort"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var statusNames = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	primitive.SendUnknownError:      "UNKNOWN_ERROR",
}

func (d *driver) producerStart(r *request) (fields, error) {
	if r.MaxMessageSize != nil || r.Java != nil {
		return nil, errUnsupported
	}
	instance := d.instanceName(r)
	options := []producer.Option{
		producer.WithGroupName(r.Group),
		producer.WithNameServer(r.namesrvs()),
		producer.WithInstanceName(instance),
		producer.WithQueueSelector(&queueSelector{otherwise: producer.NewRoundRobinQueueSelector()}),
	}
	if r.RetryTimes != nil {
		options = append(options, producer.WithRetry(*r.RetryTimes))
	}
	if r.CompressThreshold != nil {
		options = append(options, producer.WithCompressMsgBodyOverHowmuch(*r.CompressThreshold))
	}
	if r.CreateTopicQueueNums != nil {
		options = append(options, producer.WithDefaultTopicQueueNums(*r.CreateTopicQueueNums))
	}
	if r.SendTimeoutMs != nil {
		options = append(options, producer.WithSendMsgTimeout(milliseconds(*r.SendTimeoutMs)))
	}
	p, err := d.newProducer(r, options)
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.producers[r.Name] = p
	return fields{"instanceName": instance}, nil
}

func (d *driver) newProducer(r *request, options []producer.Option) (rocketmq.Producer, error) {
	if r.Transactional {
		return newTransactional(d, r.Name, options)
	}
	return rocketmq.NewProducer(options...)
}

func (d *driver) producerStop(r *request) (fields, error) {
	p, err := d.producer(r.Name)
	if err != nil {
		return nil, err
	}
	d.lock.Lock()
	delete(d.producers, r.Name)
	d.lock.Unlock()
	return fields{}, p.Shutdown()
}

func (d *driver) producer(name string) (rocketmq.Producer, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if p, known := d.producers[name]; known {
		return p, nil
	}
	return nil, fmt.Errorf("not started: %s", name)
}

// queueSelector takes the queue a message names, and the client's usual choice for one that names none.
type queueSelector struct {
	otherwise producer.QueueSelector
}

func (s *queueSelector) Select(
	message *primitive.Message, queues []*primitive.MessageQueue, lastBroker string,
) *primitive.MessageQueue {
	wanted := message.Queue
	if wanted == nil {
		return s.otherwise.Select(message, queues, lastBroker)
	}
	for _, queue := range queues {
		if queue.QueueId == wanted.QueueId && (wanted.BrokerName == "" || wanted.BrokerName == queue.BrokerName) {
			return queue
		}
	}
	return nil
}

func (d *driver) send(r *request) (fields, error) {
	p, err := d.producer(r.Name)
	if err != nil {
		return nil, err
	}
	message := r.message()
	result, err := dispatch(p, r.Mode, message)
	if err != nil {
		return nil, err
	}
	return sent(message, result), nil
}

// request sends a message whose consumer replies to it, and waits for the reply.
func (d *driver) request(r *request) (fields, error) {
	p, err := d.producer(r.Name)
	if err != nil {
		return nil, err
	}
	timeout := 10 * time.Second
	if r.TimeoutMs != nil {
		timeout = milliseconds(*r.TimeoutMs)
	}
	reply, err := p.Request(context.Background(), timeout, r.message())
	if err != nil {
		return nil, err
	}
	return fields{"message": fields{
		"body":       base64.StdEncoding.EncodeToString(reply.Body),
		"topic":      reply.Topic,
		"properties": reply.GetProperties(),
	}}, nil
}

// dispatch sends and waits; the result of a oneway send is nil.
func dispatch(p rocketmq.Producer, mode string, messages ...*primitive.Message) (*primitive.SendResult, error) {
	switch mode {
	case "", "sync":
		return p.SendSync(context.Background(), messages...)
	case "oneway":
		return nil, p.SendOneWay(context.Background(), messages...)
	case "async":
		return sendAsync(p, messages)
	default:
		return nil, fmt.Errorf("mode %s", mode)
	}
}

func sendAsync(p rocketmq.Producer, messages []*primitive.Message) (*primitive.SendResult, error) {
	type outcome struct {
		result *primitive.SendResult
		err    error
	}
	// Room for two: after an error the client goes on and may call back once more.
	outcomes := make(chan outcome, 2)
	callback := func(_ context.Context, result *primitive.SendResult, err error) {
		select {
		case outcomes <- outcome{result, err}:
		default:
		}
	}
	if err := p.SendAsync(context.Background(), callback, messages...); err != nil {
		return nil, err
	}
	first := <-outcomes
	return first.result, first.err
}

func sent(message *primitive.Message, result *primitive.SendResult) fields {
	if result == nil {
		return fields{"msgId": message.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex)}
	}
	return fields{
		"sendStatus":  statusNames[result.Status],
		"msgId":       result.MsgID,
		"offsetMsgId": result.OffsetMsgID,
		"brokerName":  result.MessageQueue.BrokerName,
		"queueId":     result.MessageQueue.QueueId,
		"queueOffset": result.QueueOffset,
	}
}

func (d *driver) sendBatch(r *request) (fields, error) {
	p, err := d.producer(r.Name)
	if err != nil {
		return nil, err
	}
	messages := make([]*primitive.Message, 0, len(r.Messages))
	for _, each := range r.Messages {
		if r.QueueID != nil {
			each.QueueID, each.BrokerName = r.QueueID, r.BrokerName
		}
		messages = append(messages, each.message())
	}
	result, err := dispatch(p, "sync", messages...)
	if err != nil {
		return nil, err
	}
	return sent(nil, result), nil
}

// sendMany sends bodies template.body + "0", "1", ... ; see numbered for what else varies.
func (d *driver) sendMany(r *request) (fields, error) {
	p, err := d.producer(r.Name)
	if err != nil {
		return nil, err
	}
	gathered := &batch{statuses: map[string]int{}}
	indexes := make(chan int)
	var workers sync.WaitGroup
	for range max(1, r.Concurrency) {
		workers.Go(func() {
			for index := range indexes {
				reply, err := sendNumbered(p, r, index)
				gathered.add(index, reply, err)
			}
		})
	}
	for n := range r.Count {
		indexes <- r.Start + n
	}
	close(indexes)
	workers.Wait()
	return gathered.report(), nil
}

func sendNumbered(p rocketmq.Producer, r *request, index int) (fields, error) {
	one, err := numbered(r.Template, index)
	if err != nil {
		return nil, err
	}
	message := one.message()
	result, err := dispatch(p, r.Mode, message)
	if err != nil {
		return nil, err
	}
	return sent(message, result), nil
}

// batch is the outcome of send_many, gathered from many goroutines.
type batch struct {
	lock     sync.Mutex
	results  [][]any
	errors   [][]any
	statuses map[string]int
}

func (b *batch) add(index int, f fields, err error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if err != nil {
		b.errors = append(b.errors, []any{index, responseCode(err), err.Error()})
		return
	}
	status, known := f["sendStatus"].(string)
	if !known {
		status = "ONEWAY"
	}
	b.statuses[status]++
	row := []any{index, f["msgId"], f["offsetMsgId"], f["brokerName"], f["queueId"], f["queueOffset"]}
	b.results = append(b.results, row)
}

func (b *batch) report() fields {
	sort.Slice(b.results, func(i, j int) bool { return b.results[i][0].(int) < b.results[j][0].(int) })
	return fields{"results": listed(b.results), "errors": listed(b.errors), "statuses": b.statuses}
}

// listed makes an empty list of nothing, where encoding/json would write null.
func listed(rows [][]any) [][]any {
	return append([][]any{}, rows...)
}

func milliseconds(n int) time.Duration {
	return time.Duration(n) * time.Millisecond
}
