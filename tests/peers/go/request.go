package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// messageFields describe a message to send; a pointer is nil where the field was left out.
type messageFields struct {
	Topic      string            `json:"topic"`
	Body       []byte            `json:"body"` // encoding/json reads base64 into bytes
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	Flag       int32             `json:"flag"`
	Properties map[string]string `json:"properties"`
	DelayLevel int               `json:"delayLevel"`
	QueueID    *int              `json:"queueId"`
	BrokerName string            `json:"brokerName"`
}

type subscription struct {
	Topic          string `json:"topic"`
	Expression     string `json:"expression"`
	ExpressionType string `json:"expressionType"`
}

// request is the union of what all operations take.
type request struct {
	messageFields
	ID   int64  `json:"id"`
	Op   string `json:"op"`
	Name string `json:"name"`

	Group        string          `json:"group"`
	Namesrv      string          `json:"namesrv"`
	InstanceName string          `json:"instanceName"`
	Java         json.RawMessage `json:"java"`

	RetryTimes           *int `json:"retryTimes"`
	CompressThreshold    *int `json:"compressThreshold"`
	CreateTopicQueueNums *int `json:"createTopicQueueNums"`
	SendTimeoutMs        *int `json:"sendTimeoutMs"`
	MaxMessageSize       *int `json:"maxMessageSize"`
	Transactional        bool `json:"transactional"`

	Mode        string           `json:"mode"`
	Count       int              `json:"count"`
	Start       int              `json:"start"`
	Concurrency int              `json:"concurrency"`
	Template    map[string]any   `json:"template"`
	Messages    []*messageFields `json:"messages"`

	Expression        string         `json:"expression"`
	ExpressionType    string         `json:"expressionType"`
	Subscriptions     []subscription `json:"subscriptions"`
	Model             string         `json:"model"`
	From              string         `json:"from"`
	Timestamp         *int64         `json:"timestamp"`
	Orderly           bool           `json:"orderly"`
	ClientRebalance   *bool          `json:"clientRebalance"`
	ConsumeThreads    *int           `json:"consumeThreads"`
	PullBatchSize     *int           `json:"pullBatchSize"`
	MaxReconsumeTimes *int           `json:"maxReconsumeTimes"`
	FailFirst         int            `json:"failFirst"`
	RetryDelayLevel   *int           `json:"retryDelayLevel"`
	SuspendMs         *int           `json:"suspendMs"`
	ListenerSleepMs   int            `json:"listenerSleepMs"`
	ReplyBy           string         `json:"replyBy"`
	TimeoutMs         *int           `json:"timeoutMs"`

	Kind           string `json:"kind"`
	Broker         string `json:"broker"`
	ReadQueueNums  *int   `json:"readQueueNums"`
	WriteQueueNums *int   `json:"writeQueueNums"`
	Perm           *int   `json:"perm"`
	Order          bool   `json:"order"`
}

func (r *request) namesrvs() primitive.NamesrvAddr {
	return strings.Split(r.Namesrv, ";")
}

func (m *messageFields) message() *primitive.Message {
	message := primitive.NewMessage(m.Topic, m.Body)
	message.Flag = m.Flag
	for key, value := range m.Properties {
		message.WithProperty(key, value)
	}
	if m.Tags != "" {
		message.WithTag(m.Tags)
	}
	if m.Keys != "" {
		message.WithKeys([]string{m.Keys})
	}
	if m.DelayLevel > 0 {
		message.WithDelayTimeLevel(m.DelayLevel)
	}
	if m.QueueID != nil {
		message.Queue = &primitive.MessageQueue{Topic: m.Topic, BrokerName: m.BrokerName, QueueId: *m.QueueID}
	}
	return message
}

// numbered is the template for one index: the number is appended to the body, an array holds alternatives taken in
// turn, and "{i}" in a text or property stands for the number.
func numbered(template map[string]any, index int) (*messageFields, error) {
	text, err := json.Marshal(substituted(template, index))
	if err != nil {
		return nil, err
	}
	one := &messageFields{}
	if err := json.Unmarshal(text, one); err != nil {
		return nil, err
	}
	one.Body = strconv.AppendInt(one.Body, int64(index), 10)
	return one, nil
}

func substituted(value any, index int) any {
	switch v := value.(type) {
	case []any:
		return substituted(v[index%len(v)], index)
	case map[string]any:
		result := make(map[string]any, len(v))
		for key, each := range v {
			result[key] = substituted(each, index)
		}
		return result
	case string:
		return strings.ReplaceAll(v, "{i}", strconv.Itoa(index))
	default:
		return value
	}
}
