export CLUSTER_SPEC='{"cluster":{"workerpool0":["cmle-training-workerpool0-1ee2108ad5-0:2222"]},"environment":"cloud","task":{"type":"workerpool0","index":0},"job":{"workerPoolSpecs":[{"machineSpec":{"machineType":"n1-standard-4"},"containerSpec":{"imageUri":"example/train","command":["true"],"env":[{"name":"LINES","value":"one\ntwo\n\n"},{"name":"QUOTES","value":"'\''single'\'' \"double\" `back`"},{"name":"EQUALS","value":"=a=b==c"},{"name":"DOLLARS","value":"$HOME $(HOME $$(LINES) $$ $"},{"name":"BACKSLASHES","value":"C:\\new\\table\\"},{"name":"JSON","value":"{\"a\": [\"b\", null], \"c\": \"$(EQUALS)\"}"},{"name":"NOTHING","value":""},{"name":"SPACES","value":"  \t  "}]}}]}}'
export CLOUD_ML_JOB_ID='1ee2108ad5'
export SUMMAND_JOB_ID='1ee2108ad5'
export SUMMAND_REPLICA='workerpool0-0'
export LINES='one
two

'
export QUOTES=''\''single'\'' "double" `back`'
export EQUALS='=a=b==c'
export DOLLARS='$HOME $(HOME $$(LINES) $ $'
export BACKSLASHES='C:\new\table\'
export JSON='{"a": ["b", null], "c": "=a=b==c"}'
export NOTHING=''
export SPACES='  	  '
