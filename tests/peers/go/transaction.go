package main

import (
	"context"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var states = map[string]primitive.LocalTransactionState{
	"":         primitive.CommitMessageState,
	"commit":   primitive.CommitMessageState,
	"rollback": primitive.RollbackMessageState,
	"unknown":  primitive.UnknowState,
}

// transactional is a producer whose every synchronous send is a transaction.
type transactional struct {
	rocketmq.Producer
	inner rocketmq.TransactionProducer
}

func newTransactional(d *driver, name string, options []producer.Option) (rocketmq.Producer, error) {
	inner, err := rocketmq.NewTransactionProducer(&transactionListener{d, name}, options...)
	return &transactional{inner: inner}, err
}

func (t *transactional) Start() error { return t.inner.Start() }

func (t *transactional) Shutdown() error { return t.inner.Shutdown() }

func (t *transactional) SendSync(ctx context.Context, messages ...*primitive.Message) (*primitive.SendResult, error) {
	result, err := t.inner.SendMessageInTransaction(ctx, messages[0])
	if err != nil {
		return nil, err
	}
	return result.SendResult, nil
}

// transactionListener does what the message says, so that any producer of the group can answer for another.
type transactionListener struct {
	driver *driver
	name   string
}

func (l *transactionListener) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return states[message.GetProperty("outcome")]
}

func (l *transactionListener) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	event := describe(context.Background(), message)
	event["event"], event["consumer"], event["accepted"] = "message", l.name, true
	l.driver.emit(event)
	return states[message.GetProperty("checked")]
}
