# The container's first process: a name server, and a broker that tests may kill and start again.
# Works with the scripts of the public image; $NAMESRV_OPTIONS and $BROKER_OPTIONS are the JVMs'.
missing() { echo "this image has no $1: choose another (ORDERLY_ROCKETMQ_IMAGE)"; exit 1; }
[ -f "$ROCKETMQ_HOME/bin/mqbroker" ] || missing 'RocketMQ in $ROCKETMQ_HOME'
[ -x "$JAVA_HOME/bin/java" ] || command -v java >/dev/null || missing Java
cd "$ROCKETMQ_HOME/bin" || exit 1
# Without its name server the container is of no use: all but this first process are killed.
(JAVA_OPT_EXT=$NAMESRV_OPTIONS sh mqnamesrv; echo "the name server ended"; kill -KILL 0) &
while
    JAVA_OPT_EXT=$BROKER_OPTIONS sh mqbroker -c /broker.conf
    [ -e /tmp/killed ] # somebody ended it on purpose; it starts again once the mark is gone
do
    while [ -e /tmp/killed ]; do sleep 0.1; done
done
echo "the broker ended"
