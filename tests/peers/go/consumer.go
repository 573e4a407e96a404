package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func (d *driver) consumerStart(r *request) (fields, error) {
	if r.ClientRebalance != nil || r.Java != nil {
		return nil, errUnsupported
	}
	instance := d.instanceName(r)
	options, err := consumerOptions(r)
	if err != nil {
		return nil, err
	}
	c, err := rocketmq.NewPushConsumer(append(options, consumer.WithInstance(instance))...)
	if err != nil {
		return nil, err
	}
	judge := &judge{driver: d, request: r, deliveries: map[string]int{}}
	for _, each := range subscriptions(r) {
		if err := c.Subscribe(each.Topic, selector(each), judge.consume); err != nil {
			return nil, err
		}
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.consumers[r.Name] = c
	return fields{"instanceName": instance}, nil
}

func consumerOptions(r *request) ([]consumer.Option, error) {
	from, err := fromWhere(r)
	if err != nil {
		return nil, err
	}
	options := []consumer.Option{
		consumer.WithGroupName(r.Group),
		consumer.WithNameServer(r.namesrvs()),
		consumer.WithConsumeFromWhere(from),
		consumer.WithConsumerOrder(r.Orderly),
	}
	if r.Model == "broadcasting" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if r.Timestamp != nil {
		// The client reads this text as UTC, though its default writes local time and Java means local time.
		text := time.UnixMilli(*r.Timestamp).UTC().Format("20060102150405")
		options = append(options, consumer.WithConsumeTimestamp(text))
	}
	if r.ConsumeThreads != nil {
		options = append(options, consumer.WithConsumeGoroutineNums(*r.ConsumeThreads))
	}
	if r.PullBatchSize != nil {
		options = append(options, consumer.WithPullBatchSize(int32(*r.PullBatchSize)))
	}
	if r.MaxReconsumeTimes != nil {
		options = append(options, consumer.WithMaxReconsumeTimes(int32(*r.MaxReconsumeTimes)))
	}
	if r.SuspendMs != nil {
		options = append(options, consumer.WithSuspendCurrentQueueTimeMillis(milliseconds(*r.SuspendMs)))
	}
	return options, nil
}

func fromWhere(r *request) (consumer.ConsumeFromWhere, error) {
	switch r.From {
	case "first":
		return consumer.ConsumeFromFirstOffset, nil
	case "", "last":
		return consumer.ConsumeFromLastOffset, nil
	case "timestamp":
		return consumer.ConsumeFromTimestamp, nil
	default:
		return 0, fmt.Errorf("from %s", r.From)
	}
}

func subscriptions(r *request) []subscription {
	if len(r.Subscriptions) > 0 {
		return r.Subscriptions
	}
	return []subscription{{r.Topic, r.Expression, r.ExpressionType}}
}

func selector(s subscription) consumer.MessageSelector {
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: s.Expression}
	if s.ExpressionType == "SQL92" {
		selector.Type = consumer.SQL92
	}
	if s.Expression == "" {
		selector.Expression = "*"
	}
	return selector
}

// judge reports every delivery and turns down the first FailFirst deliveries of each message (all, if negative).
type judge struct {
	driver     *driver
	request    *request
	lock       sync.Mutex
	deliveries map[string]int
}

func (j *judge) consume(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	good := true
	for _, message := range messages {
		accepted := j.accepts(message)
		event := describe(ctx, message)
		event["event"], event["consumer"], event["accepted"] = "message", j.request.Name, accepted
		j.driver.emit(event)
		good = good && accepted
		if accepted && j.request.ReplyBy != "" {
			j.reply(ctx, message)
		}
	}
	time.Sleep(milliseconds(j.request.ListenerSleepMs))
	if good {
		return consumer.ConsumeSuccess, nil
	}
	if j.request.Orderly {
		return consumer.SuspendCurrentQueueAMoment, nil
	}
	if concurrently, exists := primitive.GetConcurrentlyCtx(ctx); exists && j.request.RetryDelayLevel != nil {
		concurrently.DelayLevelWhenNextConsume = *j.request.RetryDelayLevel
	}
	return consumer.ConsumeRetryLater, nil
}

func (j *judge) reply(ctx context.Context, message *primitive.MessageExt) {
	p, err := j.driver.producer(j.request.ReplyBy)
	if err == nil {
		var reply *primitive.Message
		if reply, err = consumer.CreateReplyMessage(message, nil); err == nil {
			reply.Body = append([]byte("re: "), message.Body...) // the library drops the body it is given
			_, err = p.SendSync(ctx, reply)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reply:", err)
	}
}

func (j *judge) accepts(message *primitive.MessageExt) bool {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.deliveries[message.MsgId]++
	return j.request.FailFirst >= 0 && j.deliveries[message.MsgId] > j.request.FailFirst
}

func (d *driver) consumerStop(r *request) (fields, error) {
	d.lock.Lock()
	c, known := d.consumers[r.Name]
	delete(d.consumers, r.Name)
	d.lock.Unlock()
	if !known {
		return nil, fmt.Errorf("not started: %s", r.Name)
	}
	return fields{}, c.Shutdown()
}

func describe(ctx context.Context, message *primitive.MessageExt) fields {
	return fields{
		"topic":          message.Topic,
		"msgId":          message.MsgId,
		"offsetMsgId":    message.OffsetMsgId,
		"brokerName":     brokerName(ctx),
		"queueId":        message.Queue.QueueId,
		"queueOffset":    message.QueueOffset,
		"tags":           orNull(message.GetTags()),
		"keys":           orNull(message.GetKeys()),
		"body":           base64.StdEncoding.EncodeToString(message.Body),
		"properties":     message.GetProperties(),
		"flag":           message.Flag,
		"sysFlag":        message.SysFlag,
		"reconsumeTimes": message.ReconsumeTimes,
		"bornTimestamp":  message.BornTimestamp,
		"storeTimestamp": message.StoreTimestamp,
		"receivedAt":     time.Now().UnixMilli(),
	}
}

// brokerName comes from the queue that was pulled; the decoded message does not know it.
func brokerName(ctx context.Context) any {
	if consumed, exists := primitive.GetConsumerCtx(ctx); exists && consumed.MQ != nil {
		return consumed.MQ.BrokerName
	}
	return nil
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
