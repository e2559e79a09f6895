package wire

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// short is the last part of a method's name.
func short(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }

// knownFields are the fields that the double reads, by message.
func knownFields() map[protoreflect.FullName]string {
	return map[protoreflect.FullName]string{
		"qdrant.HealthCheckRequest":         "",
		"qdrant.ListCollectionsRequest":     "",
		"qdrant.ListAliasesRequest":         "",
		"qdrant.CollectionExistsRequest":    "collection_name",
		"qdrant.GetCollectionInfoRequest":   "collection_name",
		"qdrant.DeleteCollection":           "collection_name",
		"qdrant.CreateCollection":           "collection_name hnsw_config vectors_config sparse_vectors_config replication_factor write_consistency_factor strict_mode_config metadata",
		"qdrant.HnswConfigDiff":             "m",
		"qdrant.VectorsConfig":              "params_map",
		"qdrant.VectorParamsMap":            "map",
		"qdrant.VectorParams":               "size distance hnsw_config",
		"qdrant.SparseVectorConfig":         "map",
		"qdrant.SparseVectorParams":         "",
		"qdrant.StrictModeConfig":           "enabled max_query_limit unindexed_filtering_retrieve unindexed_filtering_update search_allow_exact upsert_max_batchsize filter_max_conditions condition_max_size",
		"qdrant.ChangeAliases":              "actions",
		"qdrant.AliasOperations":            "create_alias delete_alias",
		"qdrant.CreateAlias":                "collection_name alias_name",
		"qdrant.DeleteAlias":                "alias_name",
		"qdrant.CreateFieldIndexCollection": "collection_name wait field_name field_type field_index_params",
		"qdrant.PayloadIndexParams":         "keyword_index_params integer_index_params",
		"qdrant.KeywordIndexParams":         "is_tenant",
		"qdrant.IntegerIndexParams":         "lookup range",
		"qdrant.UpsertPoints":               "collection_name wait points ordering",
		"qdrant.WriteOrdering":              "type",
		"qdrant.PointStruct":                "id payload vectors",
		"qdrant.PointId":                    "uuid",
		"qdrant.Vectors":                    "vectors",
		"qdrant.NamedVectors":               "vectors",
		"qdrant.Vector":                     "dense sparse",
		"qdrant.DenseVector":                "data",
		"qdrant.SparseVector":               "values indices",
		"qdrant.Value":                      "integer_value string_value list_value",
		"qdrant.ListValue":                  "values",
		"qdrant.DeletePoints":               "collection_name wait points ordering",
		"qdrant.PointsSelector":             "filter",
		"qdrant.QueryBatchPoints":           "collection_name query_points",
		"qdrant.QueryPoints":                "collection_name query using filter params limit with_vectors with_payload",
		"qdrant.Query":                      "nearest",
		"qdrant.VectorInput":                "dense sparse",
		"qdrant.SearchParams":               "exact",
		"qdrant.WithVectorsSelector":        "enable",
		"qdrant.WithPayloadSelector":        "include",
		"qdrant.PayloadIncludeSelector":     "fields",
		"qdrant.ScrollPoints":               "collection_name filter offset limit with_payload with_vectors read_consistency",
		"qdrant.ReadConsistency":            "type",
		"qdrant.Filter":                     "must must_not",
		"qdrant.Condition":                  "field has_id",
		"qdrant.HasIdCondition":             "has_id",
		"qdrant.FieldCondition":             "key match range",
		"qdrant.Match":                      "keyword keywords integer",
		"qdrant.RepeatedStrings":            "strings",
		"qdrant.Range":                      "lt gt gte lte",
	}
}

// known refuses a message with anything in it that the double does not read, also
// with fields that its stubs do not have.
func known(message proto.Message) error {
	fields := knownFields()
	var check func(protoreflect.Message) error
	check = func(m protoreflect.Message) (err error) {
		name := m.Descriptor().FullName()
		read, ok := fields[name]
		if !ok || len(m.GetUnknown()) > 0 {
			return status.Errorf(codes.Unimplemented, "%s", name)
		}
		m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			if !contains(read, string(field.Name())) {
				err = status.Errorf(codes.Unimplemented, "%s", field.FullName())
				return false
			}
			err = each(field, value, check)
			return err == nil
		})
		return err
	}
	return check(message.ProtoReflect())
}

func contains(list, name string) bool {
	for field := range strings.FieldsSeq(list) {
		if field == name {
			return true
		}
	}
	return false
}

// each visits the messages in a field.
func each(field protoreflect.FieldDescriptor, value protoreflect.Value, visit func(protoreflect.Message) error) (err error) {
	switch {
	case field.IsMap():
		if field.MapValue().Message() == nil {
			return nil
		}
		value.Map().Range(func(_ protoreflect.MapKey, entry protoreflect.Value) bool {
			err = visit(entry.Message())
			return err == nil
		})
	case field.Message() == nil:
	case field.IsList():
		for i := range value.List().Len() {
			if err := visit(value.List().Get(i).Message()); err != nil {
				return err
			}
		}
	default:
		return visit(value.Message())
	}
	return err
}
