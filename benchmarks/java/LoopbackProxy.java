import javassist.ClassPool;
import javassist.CtClass;

/**
 * RocketMQ's proxy, listening on 127.0.0.1 only: it has no setting for that, so the two calls that
 * choose its addresses are replaced before it starts. Arguments: the proxy's own.
 */
public final class LoopbackProxy {
    private static final String GRPC = "io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder";
    private static final String REMOTING = "org.apache.rocketmq.remoting.netty.NettyServerConfig";

    public static void main(String[] args) throws Exception {
        replace(GRPC, "forPort",
            "return forAddress(new java.net.InetSocketAddress(\"127.0.0.1\", $1));");
        replace(REMOTING, "getBindAddress", "return \"127.0.0.1\";");
        Class.forName("org.apache.rocketmq.proxy.ProxyStartup")
            .getMethod("main", String[].class).invoke(null, (Object) args);
    }

    private static void replace(String name, String method, String body) throws Exception {
        ClassPool pool = ClassPool.getDefault();
        pool.appendClassPath(new javassist.LoaderClassPath(ClassLoader.getSystemClassLoader()));
        CtClass found = pool.get(name);
        found.getDeclaredMethods(method)[0].setBody(body);
        found.toClass(ClassLoader.getSystemClassLoader(), null);
    }
}
