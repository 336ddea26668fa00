module github.com/idverify/idverify-go/cmd/idverify

go 1.26.0

replace github.com/idverify/idverify-go => ../..
