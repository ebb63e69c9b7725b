//! The sample workloads: nginx as a Deployment, PostgreSQL as a StatefulSet.
//!
//! Both run the machine's own Debian programs, so that nothing is pulled from
//! anywhere.

use crate::image::base::HOST;

/// Everything that is deployed, as YAML documents.
pub(super) fn render(namespace: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: web, namespace: {namespace}}}
data:
  nginx.conf: |
    pid /tmp/nginx.pid;
    error_log stderr;
    events {{}}
    http {{
      access_log off;
      client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy;
      fastcgi_temp_path /tmp/fastcgi; uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
      server {{
        listen 8080; listen [::]:8080;
        location / {{ return 200 "answered by nginx in the pod\n"; }}
      }}
    }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {namespace}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      securityContext: {{runAsUser: 1000}}
      containers:
        - name: nginx
          image: {HOST}
          imagePullPolicy: Never
          command: [nginx, -c, /config/nginx.conf, -g, daemon off;]
          ports: [{{containerPort: 8080}}]
          readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1}}
          lifecycle: {{preStop: {{sleep: {{seconds: 3}}}}}}
          volumeMounts:
            - {{name: usr, mountPath: /usr, readOnly: true}}
            - {{name: config, mountPath: /config}}
      volumes:
        - {{name: usr, hostPath: {{path: /usr}}}}
        - {{name: config, configMap: {{name: web}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: {namespace}}}
spec:
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: postgres, namespace: {namespace}}}
spec:
  replicas: 1
  serviceName: postgres
  selector: {{matchLabels: {{app: postgres}}}}
  template:
    metadata: {{labels: {{app: postgres}}}}
    spec:
      securityContext: {{runAsUser: 1000, fsGroup: 1000}}
      containers:
        - name: postgres
          image: {HOST}
          imagePullPolicy: Never
          command:
            - sh
            - -ec
            - |
              bin=/usr/lib/postgresql/15/bin
              $bin/initdb -D /data/pg -A trust -U postgres >/dev/null
              printf 'host all all all trust\n' >> /data/pg/pg_hba.conf
              exec $bin/postgres -D /data/pg -k /tmp -c listen_addresses='*'
          ports: [{{containerPort: 5432}}]
          readinessProbe:
            exec: {{command: [/usr/lib/postgresql/15/bin/pg_isready, -h, 127.0.0.1]}}
            periodSeconds: 1
          volumeMounts:
            - {{name: usr, mountPath: /usr, readOnly: true}}
            - {{name: data, mountPath: /data}}
      volumes:
        - {{name: usr, hostPath: {{path: /usr}}}}
        - {{name: data, emptyDir: {{}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: postgres, namespace: {namespace}}}
spec:
  selector: {{app: postgres}}
  ports: [{{port: 5432}}]
---
apiVersion: napwake.dev/v1alpha1
kind: ManagedWorkload
metadata: {{name: web, namespace: {namespace}}}
spec:
  targetRef: {{kind: Deployment, name: web}}
  lookout: 3s
---
apiVersion: napwake.dev/v1alpha1
kind: ManagedWorkload
metadata: {{name: postgres, namespace: {namespace}}}
spec:
  targetRef: {{kind: StatefulSet, name: postgres}}
  lookout: 3s
"#
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_document_is_an_object_of_the_namespace() {
        let text = render("demo");
        let documents: Vec<Value> = text
            .split("\n---\n")
            .map(|text| serde_saphyr::from_str(text).unwrap())
            .collect();
        assert_eq!(documents.len(), 8);
        for document in &documents[1..] {
            assert_eq!(document["metadata"]["namespace"], "demo", "{document}");
        }
    }
}
