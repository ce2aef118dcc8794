// An ordered consumer of the Go client, with the settings it has by default.
//
// Arguments and output are those of JavaMember.java. It shuts down cleanly at the end of its
// standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	shardingKey = "__SHARDINGKEY"  // GetShardingKey reads another property
	work        = time.Millisecond // two handlers of one queue would be seen
)

var output sync.Mutex

func main() {
	rlog.SetLogLevel("fatal")
	member, err := rocketmq.NewPushConsumer(
		consumer.WithGroupName(os.Args[2]),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{os.Args[1]})),
		consumer.WithInstance(fmt.Sprintf("go-%d", os.Getpid())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(true),
	)
	failOn(err)
	failOn(member.Subscribe(os.Args[3], consumer.MessageSelector{}, handle))
	failOn(member.Start())
	say("started\tgo-%d\n", os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	failOn(member.Shutdown())
}

func handle(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	start := time.Now().UnixMilli()
	time.Sleep(work)
	for _, message := range messages {
		say("delivered\t%s\t%s\t%d\t%d\t%d\t%d\n", message.GetProperty(shardingKey), message.Body,
			message.Queue.QueueId, message.QueueOffset, start, time.Now().UnixMilli())
	}
	return consumer.ConsumeSuccess, nil
}

func say(format string, values ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format, values...)
}

func failOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
