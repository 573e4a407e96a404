package main

import (
	"context"
	"sort"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// withAdmin lends an admin client for one operation; they are rare and it starts at once.
func withAdmin(r *request, use func(admin.Admin) error) error {
	client, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(r.namesrvs())))
	if err != nil {
		return err
	}
	defer client.Close()
	return use(client)
}

func (d *driver) queues(r *request) (fields, error) {
	if r.Kind == "read" {
		return nil, errUnsupported
	}
	var found []*primitive.MessageQueue
	err := withAdmin(r, func(client admin.Admin) (err error) {
		found, err = client.FetchPublishMessageQueues(context.Background(), r.Topic)
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := found[i], found[j]
		return a.BrokerName < b.BrokerName || a.BrokerName == b.BrokerName && a.QueueId < b.QueueId
	})
	return fields{"queues": append([]*primitive.MessageQueue{}, found...)}, nil
}

func (d *driver) createTopic(r *request) (fields, error) {
	options := []admin.OptionCreate{
		admin.WithTopicCreate(r.Topic), admin.WithBrokerAddrCreate(r.Broker), admin.WithOrder(r.Order),
	}
	if r.ReadQueueNums != nil {
		options = append(options, admin.WithReadQueueNums(*r.ReadQueueNums))
	}
	if r.WriteQueueNums != nil {
		options = append(options, admin.WithWriteQueueNums(*r.WriteQueueNums))
	}
	if r.Perm != nil {
		options = append(options, admin.WithPerm(*r.Perm))
	}
	return fields{}, withAdmin(r, func(client admin.Admin) error {
		return client.CreateTopic(context.Background(), options...)
	})
}
