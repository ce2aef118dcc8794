// Reads numbers of queues, then one key a line (UTF-8 in hexadecimal), and prints its FNV-1a and
// its places. With the module of rocketmq-client-go, the places are those of its selector.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	var topics [][]*primitive.MessageQueue
	for _, word := range strings.Fields(lines.Text()) {
		count, _ := strconv.Atoi(word)
		var queues []*primitive.MessageQueue
		for number := 0; number < count; number++ {
			queues = append(queues, &primitive.MessageQueue{Topic: "T", BrokerName: "broker-a", QueueId: number})
		}
		topics = append(topics, queues)
	}
	selector := producer.NewHashQueueSelector()
	for lines.Scan() {
		key, _ := hex.DecodeString(lines.Text())
		hash := fnv.New32a()
		hash.Write(key)
		fmt.Print(hash.Sum32())
		message := primitive.NewMessage("T", nil).WithShardingKey(string(key))
		for _, queues := range topics {
			fmt.Print(" ", selector.Select(message, queues, "").QueueId)
		}
		fmt.Println()
	}
}
